/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pass on vectors of a device. Engines compute on the host, so the vectors are mapped for the
 * pass. They are unmapped around callbacks: a strategy that sums or updates a reported range has
 * the values of the pass, and the pass those of the strategy. Without devices this is a call of the
 * engine.
 */
#include "model/mapped_pass.h"

#include "tensor/device.h"

/* A pass on vectors of a device. */
typedef struct mapped_pass {
    const fast_graph *graph; /* whose layouts the vectors have */
    fast_pass asked;         /* with the vectors' own addresses */
    fast_pass *pass;         /* as the engine gets it */
} mapped_pass;

/* Open the vectors to the engine; the addresses are those of the last time. */
static void map_pass(mapped_pass *m)
{
    const fast_graph *graph = m->graph;
    const fast_access access = m->asked.train ? FAST_ACCESS_UPDATE : FAST_ACCESS_READ;

    m->pass->params = fast__map(m->asked.params, graph->params.count, FAST_ACCESS_READ);
    m->pass->state = fast__map(m->asked.state, graph->state.count, access);
    if (m->asked.grad)
        m->pass->grad = fast__map(m->asked.grad, graph->params.count, FAST_ACCESS_UPDATE);
}

/* Close the vectors. */
static void unmap_pass(const mapped_pass *m)
{
    const fast_graph *graph = m->graph;

    fast__unmap(m->asked.params, graph->params.count, FAST_ACCESS_READ);
    fast__unmap(m->asked.state, graph->state.count,
                m->asked.train ? FAST_ACCESS_UPDATE : FAST_ACCESS_READ);
    if (m->asked.grad)
        fast__unmap(m->asked.grad, graph->params.count, FAST_ACCESS_UPDATE);
}

/* A range of g is final. */
static void report_mapped(void *ctx, int64_t offset, int64_t count)
{
    mapped_pass *m = ctx;

    unmap_pass(m);
    m->asked.report(m->asked.ctx, offset, count);
    map_pass(m);
}

/* The gradient of a layer is offered as factors, which are memory of the workspace. */
static bool factor_mapped(void *ctx, const fast_factors *factors)
{
    mapped_pass *m = ctx;

    unmap_pass(m);
    const bool taken = m->asked.factor(m->asked.ctx, factors);
    map_pass(m);
    return taken;
}

/* The pass is about to read a range of w. */
static void need_mapped(void *ctx, int64_t offset, int64_t count)
{
    mapped_pass *m = ctx;

    unmap_pass(m);
    m->asked.need(m->asked.ctx, offset, count);
    map_pass(m);
}

fast_err fast__mapped_run(const fast_program *program, fast_workspace *workspace, fast_pass *pass)
{
    mapped_pass mapped = { program->graph, *pass, pass };
    const bool devices = fast__devices_exist(); /* else the addresses are the host's already */

    if (devices) {
        map_pass(&mapped);
        pass->report = pass->report ? report_mapped : NULL;
        pass->factor = pass->factor ? factor_mapped : NULL;
        pass->need = pass->need ? need_mapped : NULL;
        pass->ctx = &mapped;
    }
    const fast_err err = program->engine->run(program, workspace, pass);
    if (devices)
        unmap_pass(&mapped);
    return err;
}
