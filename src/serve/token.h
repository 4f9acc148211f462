/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "serve/http.h"

/* Read the token of a store from the file STORE.token, or make one and store it there with mode
 * 0600; `renew` makes a new one in any case. FAST_EINVAL if the path is too long, FAST_EIO if the
 * system has no random numbers. */
fast_err fast__token_load(const char *store, bool renew, char token[FAST_HTTP_TOKEN_SIZE]);
