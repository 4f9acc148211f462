/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the language of fault schedules: any text gives an error in one line, or a schedule whose
 * text parses to the same text again and whose nodes exist.
 */
#include "base/memory.h"
#include "transport/sim/fault.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { NODES = 7 };

static void check_fault(const fast_faults *faults, const fast_fault *fault)
{
    FAST_ASSERT(fault->at >= 0);
    FAST_ASSERT(fault->length >= 0);
    FAST_ASSERT(fault->node < NODES);
    FAST_ASSERT(fault->other < NODES);
    FAST_ASSERT(fault->side_first + fault->side_count <= faults->side_count);
    FAST_ASSERT((fault->kind == FAST_FAULT_PARTITION) == (fault->side_count > 0));
    FAST_ASSERT((fault->kind == FAST_FAULT_PARTITION) == (fault->node < 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fast_faults *faults = NULL;
    fast_faults *again = NULL;
    char *text = NULL;
    char *text_again = NULL;

    if (fast__faults_parse((const char *)data, size, NODES, &faults) != FAST_OK) {
        FAST_ASSERT(faults == NULL);
        FAST_ASSERT(strlen(fast_error_detail()) > 0);
        FAST_ASSERT(strchr(fast_error_detail(), '\n') == NULL);
        return 0;
    }
    for (int64_t i = 0; i < faults->count; i++)
        check_fault(faults, &faults->list[i]);
    FAST_ASSERT(fast__faults_text(faults, &text) == FAST_OK);
    FAST_ASSERT(fast__faults_parse(text, strlen(text), NODES, &again) == FAST_OK);
    FAST_ASSERT(fast__faults_text(again, &text_again) == FAST_OK);
    FAST_ASSERT(strcmp(text, text_again) == 0);
    fast__free(text);
    fast__free(text_again);
    fast__faults_free(faults);
    fast__faults_free(again);
    return 0;
}
