/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Progress of a run. On a terminal one line is redrawn (the library sends at most ten events a
 * second) and never wraps: the bar takes what the numbers leave, and in a narrow window the numbers
 * go from the right. Elsewhere a line an evaluation, and at most one every 30 seconds between them.
 *
 *   epoch  3/10 [=========>          ] loss 0.2841  acc 89.6%  7412 samples/s  0:52 left
 *
 * A line that stays, after an evaluation:
 *
 *   step 40/40  loss 2.2756  acc 16.9%  test loss 2.2458  test acc 26.20%  18129 samples/s
 *
 * A terminal is decided by isatty() of standard error alone, so that `fast train --json | jq` still
 * shows progress. Colour (a green bar, a bold test accuracy) also needs cli_has_color(). The width
 * is asked for at each drawing, because a window may change; the last column stays empty, as some
 * terminals wrap a line that fills it. Redrawing is "\r", the text, and ESC [ K, which clears the
 * rest of the former line.
 */
#include "progress.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

enum { WIDTH_MAX = 200, BAR_MIN = 8, BAR_MAX = 30, PARTS_MAX = 6 };

void cli_progress_init(cli_progress *progress, FILE *file, bool quiet, int64_t epochs)
{
    *progress = (cli_progress){ .file = file,
                                .terminal = isatty(fileno(file)) != 0,
                                .color = cli_has_color(file),
                                .quiet = quiet,
                                .epochs = epochs };
}

/* Rounded to whole seconds: 59.6 gives "1:00", 3723 gives "1:02:03". */
void cli_progress_time(double seconds, char text[32])
{
    text[0] = '\0';
    if (!(seconds >= 0 && seconds < 1e9))
        return;
    const long long s = (long long)(seconds + 0.5);
    if (s >= 3600)
        snprintf(text, 32, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(text, 32, "%lld:%02lld", s / 60, s % 60);
}

int cli_progress_width(FILE *file)
{
    struct winsize size = { 0 };
    if (ioctl(fileno(file), TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        return 80;
    return size.ws_col < WIDTH_MAX ? size.ws_col : WIDTH_MAX;
}

void cli_progress_clear(cli_progress *progress)
{
    if (!progress->drawn)
        return;
    fputs("\r\033[K", progress->file);
    progress->drawn = false;
}

/* Where the run is: "epoch  3/10", or "step 120/500". Progress names the epoch that is being
 * trained, an evaluation (`after`) the number of epochs that are complete. The number is padded to
 * the width of the last epoch, so that the bar does not move. */
static void where_text(const cli_progress *progress, const fast_event *event, bool after,
                       char text[64])
{
    const long long epochs = (long long)progress->epochs;
    long long epoch = (long long)event->epoch + (after ? 0 : 1);
    if (epochs > 0 && event->step > 0) {
        if (epoch > epochs)
            epoch = epochs;
        snprintf(text, 64, "epoch %*lld/%lld", epochs > 99 ? 3 : epochs > 9 ? 2 : 1, epoch, epochs);
    } else if (event->step_count == 0) {
        snprintf(text, 64, "evaluation");
    } else {
        snprintf(text, 64, "step %lld/%lld", (long long)event->step, (long long)event->step_count);
    }
}

/* Draw a bar of `size` characters, of which `fraction` is full. */
static void draw_bar(FILE *file, bool color, double fraction, int size)
{
    const int full = (int)(fraction * size);
    fputs(color ? " [\033[32m" : " [", file);
    for (int i = 0; i < size; i++)
        fputc(i < full ? '=' : i == full ? '>' : ' ', file);
    fputs(color ? "\033[0m]" : "]", file);
}

/* Time left is wall time; a simulated run, which has a second clock, says so. */
static const char *clock_of(const fast_result *r)
{
    return isfinite(r->virtual_time_s) ? " of wall time" : "";
}

/* Draw the line of progress, over the last one. Numbers are added from the left while they fit:
 * note, loss, accuracy, speed, virtual time, time left. The first that does not fit ends the line,
 * so a narrow window loses the time first. The bar takes 8 to 30 of the columns that remain, and is
 * left out below 8. */
static void draw(cli_progress *progress, const fast_event *event)
{
    const fast_result *r = event->result;
    char where[64];
    char parts[PARTS_MAX][64];
    int count = 0;
    char left[32];
    where_text(progress, event, false, where);
    if (event->text) /* the event's note */
        snprintf(parts[count++], sizeof parts[0], "  %s", event->text);
    if (isfinite(r->loss) || !event->text)
        snprintf(parts[count++], sizeof parts[0], " loss %.4f", r->loss);
    if (isfinite(r->train_accuracy))
        snprintf(parts[count++], sizeof parts[0], "  acc %.1f%%", 100 * r->train_accuracy);
    if (isfinite(r->samples_per_s))
        snprintf(parts[count++], sizeof parts[0], "  %.0f samples/s", r->samples_per_s);
    cli_progress_time(event->seconds_left, left);
    if (isfinite(r->virtual_time_s))
        snprintf(parts[count++], sizeof parts[0], "  virtual %.2f s", r->virtual_time_s);
    if (left[0])
        snprintf(parts[count++], sizeof parts[0], "  %s%s left", left, clock_of(r));

    int room = cli_progress_width(progress->file) - 1 - (int)strlen(where);
    int shown = 0;
    while (shown < count && room - (int)strlen(parts[shown]) >= 0)
        room -= (int)strlen(parts[shown++]);
    const int bar = room - 3 < BAR_MAX ? room - 3 : BAR_MAX;
    fprintf(progress->file, "\r%s", where);
    if (bar >= BAR_MIN && event->step_count > 0)
        draw_bar(progress->file, progress->color, (double)event->step / (double)event->step_count,
                 bar);
    for (int i = 0; i < shown; i++)
        fputs(parts[i], progress->file);
    fputs("\033[K", progress->file);
    fflush(progress->file);
    progress->drawn = true;
}

/* A line that stays: one for each evaluation, and elsewhere than on a terminal one for 30 seconds
 * of the run's time without an evaluation. Numbers that are not finite are left out. */
static void line(cli_progress *progress, const fast_event *event, bool evaluated)
{
    const fast_result *r = event->result;
    char where[64];
    char left[32];
    cli_progress_clear(progress);
    where_text(progress, event, evaluated, where);
    fputs(where, progress->file);
    if (isfinite(r->loss))
        fprintf(progress->file, "  loss %.4f", r->loss);
    if (isfinite(r->train_accuracy))
        fprintf(progress->file, "  acc %.1f%%", 100 * r->train_accuracy);
    /* During training the validation set is evaluated, if there is one; at the end the test set. */
    const bool tested = !isnan(r->test_loss) || r->best_step < 0;
    const double accuracy = tested ? r->test_accuracy : r->validation_accuracy;
    const char *set = tested ? "test" : "validation";
    if (evaluated)
        fprintf(progress->file, "  %s loss %.4f", set, tested ? r->test_loss : r->validation_loss);
    if (evaluated && isfinite(accuracy))
        fprintf(progress->file, "  %s%s acc %.2f%%%s", progress->color ? "\033[1m" : "", set,
                100 * accuracy, progress->color ? "\033[0m" : "");
    if (evaluated && !tested && r->best_step == event->step)
        fputs("  best", progress->file);
    if (isfinite(r->samples_per_s))
        fprintf(progress->file, "  %.0f samples/s", r->samples_per_s);
    if (isfinite(r->virtual_time_s))
        fprintf(progress->file, "  virtual %.2f s", r->virtual_time_s);
    cli_progress_time(event->seconds_left, left);
    if (left[0] && event->step < event->step_count && !r->stop[0])
        fprintf(progress->file, "  %s%s left", left, clock_of(r));
    fputc('\n', progress->file);
    fflush(progress->file);
    progress->line_s = r->time_s;
}

/* Notes are printed with --quiet too: they tell of something that the user should know, such
 * as a store that cannot be written. */
void cli_progress_show(cli_progress *progress, const fast_event *event)
{
    if (event->kind == FAST_EVENT_NOTE) {
        cli_progress_clear(progress);
        fprintf(progress->file, "note: %s\n", event->text);
        return;
    }
    if (progress->quiet)
        return;
    if (event->kind == FAST_EVENT_EVALUATE)
        line(progress, event, true);
    else if (event->kind == FAST_EVENT_PROGRESS && progress->terminal)
        draw(progress, event);
    else if (event->step < event->step_count && event->result->time_s - progress->line_s >= 30)
        line(progress, event, false);
}

/* Seconds of a clock that never goes back. */
static double clock_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void cli_bar_init(cli_bar *bar, FILE *file)
{
    *bar = (cli_bar){ .file = file,
                      .terminal = isatty(fileno(file)) != 0,
                      .color = cli_has_color(file),
                      .shown_s = clock_s() };
    if (bar->terminal)
        bar->shown_s -= 1; /* at once */
}

void cli_bar_clear(cli_bar *bar)
{
    if (bar->drawn)
        fputs("\r\033[K", bar->file);
    fflush(bar->file);
    bar->drawn = false;
}

/* The bar has the room that the counts and the time leave, 8 to 30 columns; the note follows, cut
 * at the edge, if more than 12 columns remain. A call that comes too early only stores its note. */
void cli_bar_show(cli_bar *bar, const char *what, int64_t done, int64_t count, double seconds_left,
                  const char *note)
{
    const double now = clock_s();
    char where[64], left[32], time[48] = "";

    if (note[0])
        snprintf(bar->note, sizeof bar->note, "%s", note);
    if (now - bar->shown_s < (bar->terminal ? 0.1 : 30))
        return;
    bar->shown_s = now;
    if (count > 0)
        snprintf(where, sizeof where, "%lld/%lld %.30s", (long long)done, (long long)count, what);
    else
        snprintf(where, sizeof where, "%lld %.30s", (long long)done, what);
    cli_progress_time(seconds_left, left);
    if (left[0] && done < count)
        snprintf(time, sizeof time, "  %s left", left);
    if (!bar->terminal) {
        fprintf(bar->file, "%s%s%s%s\n", where, time, bar->note[0] ? "  " : "", bar->note);
        fflush(bar->file);
        return;
    }
    int room = cli_progress_width(bar->file) - 1 - (int)(strlen(where) + strlen(time));
    const int size = room - 3 < BAR_MAX ? room - 3 : BAR_MAX;
    fprintf(bar->file, "\r%s", where);
    if (size >= BAR_MIN && count > 0) {
        draw_bar(bar->file, bar->color, (double)done / (double)count, size);
        room -= size + 3;
    }
    fputs(room >= 0 ? time : "", bar->file);
    if (room > 12 && bar->note[0])
        fprintf(bar->file, "  %.*s", room - 2, bar->note);
    fputs("\033[K", bar->file);
    fflush(bar->file);
    bar->drawn = true;
}
