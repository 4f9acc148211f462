/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plugin of qemu that counts the instructions of a program by function, and prints at its end a
 * line "instructions COUNT NAME" for each; code without a symbol, such as a library's, is "?".
 * Functions of one name are added up. Debian's qemu loads plugins, but has no package with its
 * header: the few declarations that are needed are repeated here, as of version 1 of that interface.
 * tools/neon.py compiles and uses it.
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef uint64_t plugin_id;
struct tb;   /* a block of translated instructions */
struct insn; /* one of them */

extern void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id id, void (*cb)(plugin_id, struct tb *));
extern void qemu_plugin_register_vcpu_tb_exec_inline(struct tb *tb, int op, void *ptr, uint64_t imm);
extern void qemu_plugin_register_atexit_cb(plugin_id id, void (*cb)(plugin_id, void *), void *ctx);
extern uint64_t qemu_plugin_tb_n_insns(const struct tb *tb);
extern struct insn *qemu_plugin_tb_get_insn(const struct tb *tb, size_t i);
extern const char *qemu_plugin_insn_symbol(const struct insn *insn);
extern void qemu_plugin_outs(const char *text);
int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv);

enum { FUNCTIONS_MAX = 16384, LENGTH = 80 };

int qemu_plugin_version = 1;
static struct {
    char name[LENGTH]; /* empty: the end of the list */
    uint64_t count;       /* instructions that have run */
} functions[FUNCTIONS_MAX];

/* Add the length of a block to its function whenever it runs; operation 0 is "add to a 64-bit
 * number". A block ends at a jump, so it is in one function. */
static void translated(plugin_id id, struct tb *tb)
{
    const char *name = qemu_plugin_insn_symbol(qemu_plugin_tb_get_insn(tb, 0));
    int i = 0;

    (void)id;
    name = name && *name ? name : "?";
    while (i < FUNCTIONS_MAX - 1 && functions[i].name[0] &&
           strncmp(functions[i].name, name, LENGTH - 1) != 0)
        i++;
    if (!functions[i].name[0])
        strncpy(functions[i].name, name, LENGTH - 1);
    qemu_plugin_register_vcpu_tb_exec_inline(tb, 0, &functions[i].count,
                                             qemu_plugin_tb_n_insns(tb));
}

static void ended(plugin_id id, void *ctx)
{
    char text[LENGTH + 40];

    (void)id, (void)ctx;
    for (int i = 0; i < FUNCTIONS_MAX && functions[i].name[0]; i++) {
        snprintf(text, sizeof text, "instructions %" PRIu64 " %s\n", functions[i].count,
                 functions[i].name);
        qemu_plugin_outs(text);
    }
}

int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv)
{
    (void)info, (void)argc, (void)argv;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, ended, NULL);
    return 0;
}
