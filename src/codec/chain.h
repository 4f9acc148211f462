/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "codec/codec.h"

/* Inside a chain; private to this folder. */
struct fast_chain {
    char text[FAST_CHAIN_TEXT_MAX];                 /* as users typed it */
    int select_count;                               /* number of selections */
    const fast_codec *selects[FAST_SELECTIONS_MAX]; /* in the order in which they select */
    void *select_configs[FAST_SELECTIONS_MAX]; /* of each selection; NULL if it has no options */
    const fast_codec *codec;                   /* NULL: floats are sent as they are */
    void *config;                              /* of the codec; NULL if it has no options */
    bool only_selects;                         /* the codec, `nonzero`, was not named */
    int stage_count;                           /* number of stages */
    const fast_stage *stages[FAST_STAGES_MAX]; /* in the order in which they pack */
    void *stage_configs[FAST_STAGES_MAX];      /* of each stage; NULL if it has no options */
    const fast_filter *filter;                 /* of the caller; NULL: none */
    fast_codec own_select;                     /* the filter, if it is a selection */
    fast_stage own_stage;                      /* the filter, if it is a packing */
};

/* filter.c: filters of users. */
/* FAST_EINVAL, with the reason, if it is no filter, or `taken`, the name of a codec or stage. */
fast_err fast__filter_check(const fast_filter *filter, bool taken);
/* Make a selection or a stage of a filter; the one that it is not has no functions. */
void fast__filter_wrap(const fast_filter *filter, fast_codec *select, fast_stage *stage);
/* Return the configuration of a filter's codec or stage, which holds the filter's own behind a
 * pointer to the filter; parsed from the text. The caller frees it. */
fast_err fast__filter_configure(const fast_filter *filter, const char *text, void **out);

/* Return the traits of the codec alone, whatever is selected before it. */
unsigned fast__chain_codec_traits(const fast_chain *chain);

extern const fast_codec fast__codec_nonzero; /* of chains that name selections alone */
extern const fast_codec fast__codec_decay;   /* a selection that holds nothing back */

/* Return the Debian package with the library of a stage; NULL for stages without a library. */
const char *fast__stage_package(const char *name);
