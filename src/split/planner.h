/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/rng.h"
#include "fast/fast.h"
#include "split/placement.h"

/*
 * Planners: searchers of plans. A planner offers plans; the planning estimates each, tries less
 * memory where one does not fit, and retains the best of each shape: mesh, micro-batches,
 * schedule, exchange, recomputation and layout. Then the best shapes are dry runs, whose time
 * decides. A new planner is a file planner_NAME.c and an entry of the table in planners.c.
 */
enum { FAST_PLANS_MAX = 512 }; /* shapes that are retained */

/* A plan with its cost. */
typedef struct fast_planned {
    fast_plan plan;          /* the plan */
    fast_plan_cost estimate; /* in closed form */
    fast_plan_cost cost;     /* by a dry run if `dry`; else the estimate */
    bool dry;                /* it was a dry run */
} fast_planned;

/* Options of all planners; each has a table of those that it reads. */
typedef struct fast_planner_config {
    int64_t budget; /* plans that a random search tries */
    double beta;    /* soap: of the acceptance exp(beta (1 - cost / best)) */
    double rate;    /* reinforce: of the policy */
    int64_t batch;  /* reinforce: plans of an update */
    int rule;       /* list: a heuristic */
} fast_planner_config;

struct fast_planning;

/* Called now and then; false ends the search. */
typedef bool fast_planning_fn(void *ctx, const struct fast_planning *planning);

/* A search under way, and its result. */
typedef struct fast_planning {
    fast_plan_space *space;             /* lent */
    const struct fast_planner *planner; /* who offers plans */
    fast_planner_config config;         /* its options */
    fast_planned *plans;        /* [count] the best of each shape, the best first at the end */
    int64_t count;              /* number of shapes */
    int64_t offered;            /* plans that were estimated */
    int64_t dry_runs;           /* plans that were dry runs */
    int64_t dry_max;            /* plans that are dry runs at the end, at most */
    int64_t unfit;              /* plans that take too much memory */
    fast_planned fastest_unfit; /* the fastest of them, by its estimate */
    fast_planning_fn *watch;    /* or NULL */
    void *watch_ctx;            /* its argument */
    fast_rng rng;               /* of random searches */
} fast_planning;

/* A planner. */
typedef struct fast_planner {
    const char *name;           /* as it is typed */
    const char *summary;        /* one line, for help */
    const char *missing;        /* parts of its paper that are not here; "" */
    const fast_option *options; /* of fast_planner_config; NULL: none */
    bool measures;              /* it makes dry runs while it searches */
    /* Offer plans until there are no more, or the budget is used. FAST_ECANCELED. */
    fast_err (*search)(fast_planning *planning);
} fast_planner;

/* The planners, ended by NULL; the first is the standard one. */
extern const fast_planner *const fast__planners[];
extern const fast_planner fast__planner_exhaustive;
extern const fast_planner fast__planner_pipedream;
extern const fast_planner fast__planner_layerwise;
extern const fast_planner fast__planner_soap;
extern const fast_planner fast__planner_reinforce;
extern const fast_planner fast__planner_list;
extern const fast_planner fast__planner_hand;

/* How a search is done. */
typedef struct fast_planning_options {
    const char *planner;     /* "name:key=value"; "": the standard one */
    int64_t dry_runs;        /* of the best shapes; 0 stands for 48 */
    fast_planning_fn *watch; /* or NULL */
    void *watch_ctx;         /* its argument */
} fast_planning_options;

/* Search the plans of a space. Without any that fits FAST_EINVAL says what is in the way. The
 * caller frees the result in every case but an error. */
fast_err fast__plan_search(fast_plan_space *space, const fast_planning_options *options,
                           fast_planning *out);
void fast__planning_fini(fast_planning *planning);

/* For planners. */

/* Estimate a plan; if it does not fit try less memory, as the job allows; retain it if it is the
 * best of its shape. A plan that cannot be run is left out. Sets the seconds of its step, INFINITY
 * if it was left out or does not fit. */
fast_err fast__planning_offer(fast_planning *planning, const fast_plan *plan, double *seconds_out);
/* As above with a dry run in the place of the estimate: what searchers measure by. */
fast_err fast__planning_measure(fast_planning *planning, const fast_plan *plan,
                                double *seconds_out);

/* Meshes that the job allows, one after the other: false behind the last. Starts with all 0. */
bool fast__planner_next_mesh(const fast_plan_space *space, fast_mesh *mesh);
/* Micro-batches and schedules that the job and the mesh allow, one after the other: false behind
 * the last. Starts with all 0. */
bool fast__planner_next_way(const fast_plan_space *space, const fast_mesh *mesh,
                            fast_plan_way *way);
/* Make the plan of a mesh and a schedule with workers in the cluster's places and cuts that balance
 * the stages by the speeds of their nodes. FAST_EINVAL if the network cannot be cut so. */
fast_err fast__planner_start(const fast_plan_space *space, const fast_mesh *mesh,
                             const fast_plan_way *way, fast_plan *out);
/* Put the replicas of each part on consecutive places of the cluster. */
void fast__planner_group(const fast_plan_space *space, fast_plan *plan);
/* Set the cuts that make the slowest stage the fastest, by dynamic programming over prefixes and
 * the speeds of the plan's nodes. FAST_EINVAL if the network cannot be cut so. */
fast_err fast__planner_balance(const fast_plan_space *space, fast_plan *plan);
/* Return the layouts that a plan may have: numbers below it, from 0. 1 without shards. */
int fast__planner_layouts(const fast_plan_space *space, const fast_mesh *mesh);
