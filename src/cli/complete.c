/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `fast help --complete SHELL`: completion of commands, flags, choices and names of parts for bash,
 * zsh and fish, made of the tables. Flags that take a file complete to files. A script holds all
 * words, so that pressing a key does not start the program.
 *
 *   eval "$(fast help --complete bash)"                                        in ~/.bashrc
 *   fast help --complete zsh > ~/.zfunc/_fast                                  a folder of $fpath
 *   fast help --complete fish > ~/.config/fish/completions/fast.fish
 *
 * A script has to be made again after an update that adds commands, flags or parts.
 *
 *   type of the option           completed to
 *   BOOL                         no value; the next word is another flag
 *   CHOICE                       its choices
 *   TEXT with a kind of part     names of parts: --model gives mlp lenet alexnet ...
 *   TEXT of the kind "file"      files
 *   other TEXT, INT, REAL        nothing in zsh and fish; files in bash, its default
 */
#include "cli_tables.h"
#include "manual.h"

#include <string.h>

/* Text inside single quotes of all three shells; zsh's brackets and colons need a backslash. */
static void put_quoted(FILE *out, const char *text, const char *escape)
{
    for (; *text; text++) {
        if (*text == '\'')
            fputs("'\\''", out);
        else if (strchr(escape, *text))
            fprintf(out, "\\%c", *text);
        else
            fputc(*text, out);
    }
}

/* "a|b|c" as "a b c". */
static void put_words(FILE *out, const char *choices)
{
    for (; *choices; choices++)
        fputc(*choices == '|' ? ' ' : *choices, out);
}

/* True if the shell can offer words for the value: choices, or names of parts. */
static bool has_values(const fast_option *option)
{
    int64_t count = 0;

    if (option->type == FAST_OPTION_TEXT && option->choices)
        cli_part_list(option->choices, &count);
    return option->type == FAST_OPTION_CHOICE || count > 0;
}

/* The values that an option can be completed to, if it has any. */
static void put_values(FILE *out, const fast_option *option)
{
    int64_t count = 0;
    const fast_part *parts;

    if (!has_values(option))
        return;
    if (option->type == FAST_OPTION_CHOICE) {
        put_words(out, option->choices);
        return;
    }
    parts = cli_part_list(option->choices, &count);
    for (int64_t i = 0; i < count; i++)
        fprintf(out, "%s%s", i > 0 ? " " : "", parts[i].name);
}

/* Call `put` for every flag of a command: its own, then those of its part. */
static void each_flag(FILE *out, const cli_command *command,
                      void (*put)(FILE *out, const cli_command *command, const fast_option *option))
{
    const fast_part *part = cli_command_part(command);

    for (const fast_option *option = command->flags; option && option->name; option++)
        put(out, command, option);
    for (const fast_option *option = part ? part->options : NULL; option && option->name; option++)
        put(out, command, option);
}

/* A flag as one of the words that bash offers. */
static void bash_flag(FILE *out, const cli_command *command, const fast_option *option)
{
    char flag[CLI_FLAG_MAX];

    (void)command;
    cli_flag_name(option, flag);
    fprintf(out, " %s", flag);
}

/* A case for the word that follows a flag:
 *
 *   train:--engine) words='cpu ref' ;;
 */
static void bash_value(FILE *out, const cli_command *command, const fast_option *option)
{
    char flag[CLI_FLAG_MAX];

    if (option->type == FAST_OPTION_BOOL)
        return;
    cli_flag_name(option, flag);
    fprintf(out, "        %s:%s) words='", command->name, flag);
    put_values(out, option);
    fputs("' ;;\n", out);
}

/* Print the completion script for bash: one function with a `case` over COMMAND:PREVIOUS-WORD. The
 * cases of flags come before the command's own "train:*", which offers all flags and words. Values
 * are completed after "--flag ", not after "--flag=". */
static int complete_bash(FILE *out)
{
    fputs("# bash completion of fast; made by: fast help --complete bash\n"
          "_fast()\n{\n"
          "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words=''\n"
          "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n        words='--help --version",
          out);
    for (const cli_command *command = cli_commands; command->name; command++)
        fprintf(out, " %s", command->name);
    fputs("'\n    else\n        case ${COMP_WORDS[1]}:$prev in\n", out);
    for (const cli_command *command = cli_commands; command->name; command++) {
        each_flag(out, command, bash_value);
        fprintf(out, "        %s:*) words='--help", command->name);
        each_flag(out, command, bash_flag);
        if (command->words) {
            fputc(' ', out);
            put_words(out, command->words);
        }
        fputs("' ;;\n", out);
    }
    /* Without words, -o default completes files. */
    fputs("        esac\n    fi\n"
          "    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n}\n"
          "complete -o default -F _fast fast\n",
          out);
    return CLI_DONE;
}

/* A flag as zsh describes it to _arguments; "=" lets the value follow as a word or after "=".
 *
 *   '--json[print the result as one JSON object, the last line of standard output]'
 *   '--save=[save the weights to this file at the end (safetensors)]:save:_files'
 */
static void zsh_flag(FILE *out, const cli_command *command, const fast_option *option)
{
    char flag[CLI_FLAG_MAX];

    (void)command;
    cli_flag_name(option, flag);
    fprintf(out, "            '%s%s[", flag, option->type == FAST_OPTION_BOOL ? "" : "=");
    put_quoted(out, option->help, "[]:\\");
    fputc(']', out);
    if (option->type != FAST_OPTION_BOOL) {
        fprintf(out, ":%s:", option->name);
        if (cli_flag_is_file(option)) {
            fputs("_files", out);
        } else if (has_values(option)) {
            fputc('(', out);
            put_values(out, option);
            fputc(')', out);
        } else {
            fputc(' ', out); /* a message alone */
        }
    }
    fputs("' \\\n", out);
}

/* Print the completion script for zsh. The second word is described as a command; for all later
 * words the command is shifted away, so that _arguments sees its flags from the first word on. */
static int complete_zsh(FILE *out)
{
    fputs("#compdef fast\n"
          "# zsh completion of fast; made by: fast help --complete zsh\n"
          "_fast()\n{\n"
          "    if (( CURRENT == 2 )); then\n"
          "        local -a commands\n        commands=(",
          out);
    for (const cli_command *command = cli_commands; command->name; command++) {
        fprintf(out, "'%s:", command->name);
        put_quoted(out, command->summary, ":\\");
        fputs("' ", out);
    }
    fputs(")\n        _describe command commands\n        return\n    fi\n"
          "    local name=$words[2]\n    shift words\n    (( CURRENT-- ))\n"
          "    case $name in\n",
          out);
    for (const cli_command *command = cli_commands; command->name; command++) {
        fprintf(out, "    %s)\n        _arguments \\\n", command->name);
        each_flag(out, command, zsh_flag);
        fputs("            '--help[explain]'", out);
        if (command->words) {
            fputs(" \\\n            '*:topic:(", out);
            put_words(out, command->words);
            fputs(")'", out);
        }
        fputs("\n        ;;\n", out);
    }
    fputs("    esac\n}\n_fast \"$@\"\n", out);
    return CLI_DONE;
}

/* A flag as a line of fish's complete: -r -F needs a value that is a file, -x a value of the list.
 *
 *   complete -c fast -n '__fish_seen_subcommand_from train' -l save -r -F -d 'save the weights ...'
 */
static void fish_flag(FILE *out, const cli_command *command, const fast_option *option)
{
    char flag[CLI_FLAG_MAX];

    cli_flag_name(option, flag);
    fprintf(out, "complete -c fast -n '__fish_seen_subcommand_from %s' -l %s", command->name,
            flag + 2);
    if (cli_flag_is_file(option)) {
        fputs(" -r -F", out);
    } else if (option->type != FAST_OPTION_BOOL) {
        fputs(" -x -a '", out);
        put_values(out, option);
        fputc('\'', out);
    }
    fputs(" -d '", out);
    for (const char *c = option->help; *c; c++) {
        if (*c == '\'' || *c == '\\')
            fputc('\\', out);
        fputc(*c, out);
    }
    fputs("'\n", out);
}

/* Print the completion script for fish: a line for each command, one for its words, and one for
 * each flag. Files are switched off for all (-f) and on again for the flags that take one. */
static int complete_fish(FILE *out)
{
    fputs("# fish completion of fast; made by: fast help --complete fish\n"
          "complete -c fast -f\n"
          "complete -c fast -n __fish_use_subcommand -l version -d 'the version'\n",
          out);
    for (const cli_command *command = cli_commands; command->name; command++)
        fprintf(out, "complete -c fast -n __fish_use_subcommand -a %s -d '%s'\n", command->name,
                command->summary);
    for (const cli_command *command = cli_commands; command->name; command++) {
        if (command->words) {
            fprintf(out, "complete -c fast -n '__fish_seen_subcommand_from %s' -a '",
                    command->name);
            put_words(out, command->words);
            fputs("'\n", out);
        }
        each_flag(out, command, fish_flag);
    }
    return CLI_DONE;
}

/* Print the script for a shell. Return CLI_DONE, or CLI_USAGE for a shell that has no script. */
int cli_complete(FILE *out, const char *shell)
{
    if (strcmp(shell, "bash") == 0)
        return complete_bash(out);
    if (strcmp(shell, "zsh") == 0)
        return complete_zsh(out);
    if (strcmp(shell, "fish") == 0)
        return complete_fish(out);
    return cli_fail(CLI_USAGE, "no completion for \"%.60s\"; choose bash, zsh or fish", shell);
}
