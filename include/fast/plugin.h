/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * plugin.h - networks, data sets, operators and filters of your own. The rules of fast.h hold.
 */

#include "fast/fast.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * An operator of your own: a pure function of its inputs with a derivative, without parameters.
 * Arrays are row major, one sample after the other. forward and backward may be called from
 * several threads at once, on different memory.
 */
typedef struct fast_operator {
    size_t size;      /* bytes of this struct, as in fast.h; 0 means sizeof */
    const char *name; /* shown in messages, and base of the layer's default name */

    /* Compute the shape of one sample's output from those of its inputs (rank 1 to 3: [C], [T, C],
     * [C, H, W]). Any result but FAST_OK refuses the inputs. */
    fast_err (*shape)(const void *config, int input_count, const int *ranks,
                      const int64_t (*shapes)[3], int *rank_out, int64_t shape_out[3]);

    /* Compute y = f(x[0], x[1], ...) for `count` samples. sizes[i] is the number of elements of one
     * sample of input i, sizes[input_count] that of the output. */
    void (*forward)(const void *config, int64_t count, const int64_t *sizes, const float *const *x,
                    float *y);

    /* Add dy * df/dx[i] to dx[i]; dx[i] is NULL if no gradient is needed. */
    void (*backward)(const void *config, int64_t count, const int64_t *sizes, const float *const *x,
                     const float *y, const float *dy, float *const *dx);
} fast_operator;

/* A network under construction. Each line adds a layer, in the network language (docs/networks.md):
 * "conv 20 kernel=5", "residual: add a b". */
typedef struct fast_network fast_network;

/* Make an empty network. The caller frees it. */
FAST_API FAST_MUST_CHECK fast_err fast_network_new(fast_network **out);
FAST_API void fast_network_free(fast_network *network);

/* Add one line of the network language. FAST_EINVAL says what is wrong and suggests the nearest
 * word. */
FAST_API FAST_MUST_CHECK fast_err fast_network_add(fast_network *network, const char *line);

/* Add a layer `name` (NULL: a name is derived from the operator's) that runs `op` on the layers
 * named in `inputs` (separated by spaces; NULL: the last layer). `op` and `config`, which is passed
 * to op's functions, must outlive every run of the network. */
FAST_API FAST_MUST_CHECK fast_err fast_network_add_operator(fast_network *network, const char *name,
                                                            const fast_operator *op,
                                                            const void *config, const char *inputs);

/* Read a network file. Fails with FAST_ENOENT if there is no such file, FAST_EINVAL if a line is
 * wrong. */
FAST_API FAST_MUST_CHECK fast_err fast_network_open(const char *path, fast_network **out);

/* A data set in memory. */
typedef struct fast_data fast_data;

/* How a data set is made. Zero means none. The arrays are copied. */
typedef struct fast_data_options {
    size_t size;           /* bytes of this struct, as in fast.h; 0 means sizeof */
    int64_t count;         /* number of samples */
    int rank;              /* rank of one sample: 1 to 3 */
    int64_t shape[3];      /* [C], [T, C] or [C, H, W]; entries past `rank` are ignored */
    const float *x;        /* [count][shape], row major */
    const int32_t *labels; /* [count][positions]: classification */
    int64_t positions;     /* labels per sample; 0 means 1 */
    int64_t classes;       /* number of classes: labels are below it */
    const float *targets;  /* [count][outputs]: regression, instead of labels */
    int64_t outputs;       /* regression targets per sample */
} fast_data_options;

/* Copy a data set; it is used without normalisation. FAST_EINVAL if sizes or arrays contradict each
 * other, FAST_EFORMAT if a label is out of range or a value is not finite. */
FAST_API FAST_MUST_CHECK fast_err fast_data_new(const fast_data_options *options, fast_data **out);
FAST_API void fast_data_free(fast_data *data);

/* Shards that were written. */
typedef struct fast_shards_result {
    int64_t train;  /* training samples */
    int64_t test;   /* test samples */
    int64_t shards; /* files of samples */
    int64_t bytes;  /* of all files but the index */
} fast_shards_result;

/* Write a data set as shards: files of samples that a run streams with `data=shards:dir=FOLDER`.
 * `options` are "data=digits", "out=FOLDER", ..., NULL, as fast_part_list("shard") lists them.
 * FAST_EINVAL for wrong options or a folder that has shards already, FAST_ENOTSUP to compress in a
 * build without zstd, FAST_EIO, and the errors of opening the set. */
FAST_API FAST_MUST_CHECK fast_err fast_shards_write(const char *const *options,
                                                    fast_shards_result *out);

/* An update that a filter selects from. */
typedef struct fast_filter_update {
    int64_t count; /* elements */
    const float
        *w;       /* [count] weights that the update changes; NULL: the sender does not know them */
    float rate;   /* x changes its weight by rate |x|: the learning rate if gradients are sent */
    int64_t step; /* steps that the sender has taken, from 1 */
    uint64_t key; /* for random numbers: another one in each call, the same in a repeated run */
} fast_filter_update;

/*
 * A filter of your own between a sender and a receiver (Li et al. 2014, "user-defined filters"). It
 * is either a selection, which decides the elements of an update that are sent now, or a packing of
 * the bytes of messages. The options codec and codec_down name it like a codec of FAST, with its
 * options: "mine:share=0.1+lz4". Its functions are pure, and called by several threads at once.
 */
typedef struct fast_filter {
    size_t size;                /* bytes of this struct, as in fast.h; 0 means sizeof */
    const char *name;           /* as it is typed; no name of a codec */
    const fast_option *options; /* table of its configuration; NULL if it has no options */
    size_t config_size;         /* bytes of its configuration */

    /* A selection: of each element send[i] that waits for a later update, do wait[i] = send[i] and
     * send[i] = 0. Elements that waited are in the next update's. It is not called where all have
     * to be sent: in the last update, and where a bound of staleness is reached. NULL: a packing */
    void (*select)(const void *config, const fast_filter_update *update, float *send, float *wait);

    /* A packing: return the bytes that `size` bytes take at most; pack to out[bound()] and return
     * the bytes written. NULL: a selection */
    size_t (*bound)(const void *config, size_t size);
    size_t (*pack)(const void *config, const uint8_t *in, size_t size, uint8_t *out);
    /* Undo it to out[room], the bytes written to *size_out. Any bytes may arrive: FAST_EFORMAT. */
    fast_err (*unpack)(const void *config, const uint8_t *in, size_t size, uint8_t *out,
                       size_t room, size_t *size_out);
} fast_filter;

#ifdef __cplusplus
}
#endif
