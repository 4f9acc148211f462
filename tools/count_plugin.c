/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plugin of qemu that counts the instructions of a program and prints their number at its end.
 * Debian's qemu loads plugins, but has no package with its header: the few declarations that are
 * needed are repeated here, as of version 1 of that interface. tools/neon.py compiles and uses it.
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>

typedef uint64_t plugin_id;
struct tb; /* a block of translated instructions */

extern void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id id, void (*cb)(plugin_id, struct tb *));
extern void qemu_plugin_register_vcpu_tb_exec_inline(struct tb *tb, int op, void *ptr, uint64_t imm);
extern void qemu_plugin_register_atexit_cb(plugin_id id, void (*cb)(plugin_id, void *), void *ctx);
extern uint64_t qemu_plugin_tb_n_insns(const struct tb *tb);
extern void qemu_plugin_outs(const char *text);
int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv);

int qemu_plugin_version = 1;
static uint64_t count;

/* Add the length of a block whenever it runs; operation 0 is "add to a 64-bit number". */
static void translated(plugin_id id, struct tb *tb)
{
    (void)id;
    qemu_plugin_register_vcpu_tb_exec_inline(tb, 0, &count, qemu_plugin_tb_n_insns(tb));
}

static void ended(plugin_id id, void *ctx)
{
    char text[64];
    (void)id, (void)ctx;
    snprintf(text, sizeof text, "instructions %" PRIu64 "\n", count);
    qemu_plugin_outs(text);
}

int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv)
{
    (void)info, (void)argc, (void)argv;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, ended, NULL);
    return 0;
}
