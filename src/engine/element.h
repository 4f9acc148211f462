/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/graph.h"

/*
 * Elementary operators: functions of elements with broadcasting, products of activations, and moves
 * of elements, in a sample or along its positions. They are operators as users write them
 * (fast/plugin.h), which every engine runs, with one addition: `scale` and `shift` read a weight,
 * or a frozen tensor of the state, as one input more. Imported networks are made of them where no
 * larger layer fits.
 */

/* Functions of one element, with numbers a and b. */
typedef enum fast_map {
    FAST_MAP_AFFINE,       /* a x + b */
    FAST_MAP_POWER,        /* x^a */
    FAST_MAP_CLIP,         /* min(max(x, a), b) */
    FAST_MAP_EXP,          /* e^x */
    FAST_MAP_LOG,          /* ln x */
    FAST_MAP_ABS,          /* |x| */
    FAST_MAP_ERF,          /* error function */
    FAST_MAP_SOFTPLUS,     /* ln(1 + e^x) */
    FAST_MAP_ELU,          /* x, or a (e^x - 1) below zero */
    FAST_MAP_HARD_SIGMOID, /* min(max(a x + b, 0), 1) */
    FAST_MAP_HARD_SWISH    /* x min(max(x / 6 + 1 / 2, 0), 1) */
} fast_map;
/* Their names as options, in the order above. */
#define FAST_MAP_CHOICES "affine|pow|clip|exp|log|abs|erf|softplus|elu|hsig|hswish"

/* Functions of two elements. */
typedef enum fast_arith {
    FAST_ARITH_ADD, /* x + z */
    FAST_ARITH_SUB, /* x - z */
    FAST_ARITH_MUL, /* x z */
    FAST_ARITH_DIV, /* x / z */
    FAST_ARITH_MAX, /* the larger one */
    FAST_ARITH_MIN  /* the smaller one */
} fast_arith;
/* Their names as options, in the order above. */
#define FAST_ARITH_CHOICES "add|sub|mul|div|max|min"

/* The configuration of an elementary node; shapes have 3 dimensions, with ones in front. */
typedef struct fast_element {
    int kind;         /* a fast_map or fast_arith */
    float a, b;       /* numbers of a map */
    int64_t x[3];     /* shape of one sample of input 0 */
    int64_t z[3];     /* shape of input 1, or of the weight */
    int64_t y[3];     /* shape of the output */
    bool shared;      /* input 1 is a weight: one for all samples */
    int64_t order[3]; /* transpose: source of each dimension */
    int64_t start[3]; /* slice: first element along each dimension; reduce: 1 where it reduces;
                         delay: the steps, along dimension 1 */
    bool mean;        /* reduce: divide by the number of elements */
    int64_t slots;    /* route: slots of an expert; its `kind` is the experts of a position */
} fast_element;

/* Return the operator of an elementary node; NULL for other operators. */
const fast_operator *fast__element_operator(fast_op op);
