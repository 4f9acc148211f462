/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Optional libraries of this build, with the versions that are running, and what each
 * brings. Filled once, at the first question. And what the processor is called.
 */
#include "run/run.h"

#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#ifdef FAST_HAVE_ONEDNN
#include <dnnl.h>
#endif
#ifdef FAST_HAVE_XSMM
#include <libxsmm.h>
#endif
#ifdef FAST_HAVE_BLAS
char *openblas_get_config(void); /* cblas.h of some flavours does not declare it */
#endif
#ifdef FAST_HAVE_ZLIB
#include <zlib.h>
#endif
#ifdef FAST_HAVE_PNG
#include <png.h>
#endif
#ifdef FAST_HAVE_JPEG
#include <jpeglib.h>
#endif
#ifdef FAST_HAVE_ZSTD
#include <zstd.h>
#endif
#ifdef FAST_HAVE_LZ4
#include <lz4.h>
#endif
#ifdef FAST_HAVE_YAML
#include <libfyaml.h>
#endif
#ifdef FAST_HAVE_HWLOC
#include <hwloc.h>
#endif
#if defined(FAST_HAVE_FCONTEXT) && __has_include(<boost/version.hpp>)
#include <boost/version.hpp>
#endif
#ifdef FAST_HAVE_MICROHTTPD
#include <microhttpd.h>
#endif
#ifdef FAST_HAVE_SQLITE
#include <sqlite3.h>
#endif
#ifdef FAST_HAVE_MPI
#include <mpi.h>
#endif

/* Each of these returns the version of its library that is running; NULL if the build does not have
 * it. */
static const char *version_of_cpu(void)
{
    return fast_version();
}

static const char *version_of_jansson(void)
{
    return jansson_version_str();
}

static const char *version_of_onednn(void)
{
#ifdef FAST_HAVE_ONEDNN
    static char text[32];
    const dnnl_version_t *v = dnnl_version();
    snprintf(text, sizeof text, "%d.%d.%d", v->major, v->minor, v->patch);
    return text;
#else
    return NULL;
#endif
}

static const char *version_of_xsmm(void)
{
#ifdef FAST_HAVE_XSMM
    static char text[32];
    snprintf(text, sizeof text, "%d.%d.%d", LIBXSMM_VERSION_MAJOR, LIBXSMM_VERSION_MINOR,
             LIBXSMM_VERSION_UPDATE);
    return text;
#else
    return NULL;
#endif
}

static const char *version_of_blas(void)
{
#ifdef FAST_HAVE_BLAS
    /* "OpenBLAS 0.3.21 DYNAMIC_ARCH ...": the second word. */
    static char text[64];
    const char *config = openblas_get_config();
    const char *word = strchr(config, ' ');
    word = word ? word + 1 : config;
    snprintf(text, sizeof text, "%.*s", (int)strcspn(word, " "), word);
    return text;
#else
    return NULL;
#endif
}

static const char *version_of_zlib(void)
{
#ifdef FAST_HAVE_ZLIB
    return zlibVersion();
#else
    return NULL;
#endif
}

static const char *version_of_png(void)
{
#ifdef FAST_HAVE_PNG
    return png_get_libpng_ver(NULL);
#else
    return NULL;
#endif
}

static const char *version_of_jpeg(void)
{
#ifdef FAST_HAVE_JPEG
    static char text[32];
#ifdef LIBJPEG_TURBO_VERSION_NUMBER
    snprintf(text, sizeof text, "turbo %d.%d.%d", LIBJPEG_TURBO_VERSION_NUMBER / 1000000,
             LIBJPEG_TURBO_VERSION_NUMBER / 1000 % 1000, LIBJPEG_TURBO_VERSION_NUMBER % 1000);
#else
    snprintf(text, sizeof text, "%d", JPEG_LIB_VERSION);
#endif
    return text;
#else
    return NULL;
#endif
}

static const char *version_of_zstd(void)
{
#ifdef FAST_HAVE_ZSTD
    return ZSTD_versionString();
#else
    return NULL;
#endif
}

static const char *version_of_lz4(void)
{
#ifdef FAST_HAVE_LZ4
    return LZ4_versionString();
#else
    return NULL;
#endif
}

static const char *version_of_context(void)
{
#if defined(FAST_HAVE_FCONTEXT) && defined(BOOST_VERSION)
    static char text[32];
    snprintf(text, sizeof text, "%d.%d.%d", BOOST_VERSION / 100000, BOOST_VERSION / 100 % 1000,
             BOOST_VERSION % 100);
    return text;
#elif defined(FAST_HAVE_FCONTEXT)
    return "of unknown version";
#else
    return NULL;
#endif
}

static const char *version_of_yaml(void)
{
#ifdef FAST_HAVE_YAML
    return fy_library_version();
#else
    return NULL;
#endif
}

static const char *version_of_hwloc(void)
{
#ifdef FAST_HAVE_HWLOC
    static char text[32];
    const unsigned version = hwloc_get_api_version();

    snprintf(text, sizeof text, "API %u.%u", version >> 16, version >> 8 & 0xff);
    return text;
#else
    return NULL;
#endif
}

static const char *version_of_http(void)
{
#ifdef FAST_HAVE_MICROHTTPD
    return MHD_get_version();
#else
    return NULL;
#endif
}

static const char *version_of_sqlite(void)
{
#ifdef FAST_HAVE_SQLITE
    return sqlite3_libversion();
#else
    return NULL;
#endif
}

static const char *version_of_mpi(void)
{
#ifdef FAST_HAVE_MPI
    /* "Open MPI v4.1.4, package: ..." or "MPICH Version:\t4.0.2\n...": up to the first comma or
     * line. It may be asked before MPI is initialised. */
    static char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int size = 0;
    MPI_Get_library_version(text, &size);
    text[strcspn(text, ",\n")] = 0;
    return text;
#else
    return NULL;
#endif
}

static const struct {
    const char *name;
    const char *(*version)(void);
    const char *brings;
} table[] = {
    { "cpu engine", version_of_cpu,
      "training at the machine's speed; without it the ref engine trains" },
    { "jansson", version_of_jansson, "JSON: results, logs, safetensors; every build has it" },
    { "oneDNN", version_of_onednn,
      "convolution methods of its own, direct and Winograd, to choose from" },
    { "libxsmm", version_of_xsmm,
      "small products with the batch innermost: the fastest convolutions" },
    { "OpenBLAS", version_of_blas,
      "matrix products for dense layers, and for convolutions by im2col" },
    { "zlib", version_of_zlib, "gzipped IDX files (Fashion-MNIST as packaged) and compressed NPZ" },
    { "libpng", version_of_png, "PNG pictures: --data folder" },
    { "libjpeg", version_of_jpeg, "JPEG pictures: --data folder" },
    { "zstd", version_of_zstd, "smaller messages: the stage zstd of codecs; compressed shards" },
    { "lz4", version_of_lz4, "smaller messages, faster: the stage lz4 of codecs" },
    { "Boost.Context", version_of_context,
      "fast switches between simulated actors; without it ucontext switches" },
    { "libfyaml", version_of_yaml, "cluster files of the simulator in YAML" },
    { "hwloc", version_of_hwloc, "workers on cores and NUMA nodes: --bind" },
    { "libmicrohttpd", version_of_http, "the dashboard, fast ui, and metrics for Prometheus" },
    { "SQLite", version_of_sqlite, "runs are stored: fast runs, fast ui, fast compare" },
    { "MPI", version_of_mpi, "actors on the ranks of a cluster: transport mpi" },
};

enum { FEATURE_COUNT = sizeof table / sizeof table[0] };

/* Written once, under pthread_once(), and constant from then on. */
static fast_feature features[FEATURE_COUNT];

/* Ask every library once; the list is constant from then on. */
static void fill(void)
{
    for (int i = 0; i < FEATURE_COUNT; i++) {
        const char *version = table[i].version();
        features[i] = (fast_feature){ table[i].name, version != NULL, version, table[i].brings };
    }
}

const fast_feature *fast_feature_list(int64_t *count_out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fill);
    *count_out = FEATURE_COUNT;
    return features;
}

void fast_processor_name(char *text, size_t size)
{
    FILE *file = fopen("/proc/cpuinfo", "r");
    char line[512];

    snprintf(text, size, "unknown processor");
    while (file && fgets(line, sizeof line, file)) {
        const char *colon = strchr(line, ':');

        if (strncmp(line, "model name", 10) != 0 || !colon)
            continue;
        colon += 1 + strspn(colon + 1, " \t");
        snprintf(text, size, "%.*s", (int)strcspn(colon, "\n"), colon);
        break;
    }
    if (file)
        fclose(file);
}
