/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this build has of the optional libraries, with the versions that are running, and what each
 * brings. Filled once, at the first question.
 */
#include "run/run.h"

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

static char onednn_version[32], xsmm_version[32], blas_version[64];

static fast_feature features[] = {
    { "cpu engine", false, NULL,
      "training at the machine's speed; without it the ref engine trains" },
    { "oneDNN", false, NULL,
      "convolution methods of its own, direct and Winograd, to choose from" },
    { "libxsmm", false, NULL, "small products with the batch innermost: the fastest convolutions" },
    { "OpenBLAS", false, NULL, "matrix products for dense layers, and for convolutions by im2col" },
    { "zlib", false, NULL, "gzipped IDX files (Fashion-MNIST as packaged) and compressed NPZ" },
};

static void have(int i, const char *version)
{
    features[i].present = true;
    features[i].version = version;
}

static void fill(void)
{
#ifdef FAST_HAVE_CPU_ENGINE
    have(0, fast_version());
#endif
#ifdef FAST_HAVE_ONEDNN
    const dnnl_version_t *v = dnnl_version();
    snprintf(onednn_version, sizeof onednn_version, "%d.%d.%d", v->major, v->minor, v->patch);
    have(1, onednn_version);
#endif
#ifdef FAST_HAVE_XSMM
    snprintf(xsmm_version, sizeof xsmm_version, "%d.%d.%d", LIBXSMM_VERSION_MAJOR,
             LIBXSMM_VERSION_MINOR, LIBXSMM_VERSION_UPDATE);
    have(2, xsmm_version);
#endif
#ifdef FAST_HAVE_BLAS
    /* "OpenBLAS 0.3.21 DYNAMIC_ARCH ...": the second word. */
    const char *config = openblas_get_config();
    const char *word = strchr(config, ' ');
    word = word ? word + 1 : config;
    snprintf(blas_version, sizeof blas_version, "%.*s", (int)strcspn(word, " "), word);
    have(3, blas_version);
#endif
#ifdef FAST_HAVE_ZLIB
    have(4, zlibVersion());
#endif
}

const fast_feature *fast_feature_list(int64_t *count_out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fill);
    *count_out = (int64_t)(sizeof features / sizeof features[0]);
    return features;
}
