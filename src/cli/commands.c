/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commands of the program, as data: `fast --help`, `fast help TOPIC`, the manual, completion
 * and docs/options.md are made of these tables and of the options' own.
 *
 * A command accepts two tables of flags:
 *
 *   1. its own (train_flags, ...), which its code interprets: --json, --quiet, --report; bench
 *      passes those of a benchmark, such as --actors, to the library as options;
 *   2. the options of the part that `kind` names, which it passes to the library unread as
 *      "name=value". `train` is the part of train, compare and bench; `simulate` that of simulate.
 *
 * The first table wins where both have a name, as --timeout of bench. Types, limits and defaults of
 * the second table are checked by the library; those of the first one are shown in help, and the
 * command checks the values that it reads itself.
 *
 * To add a command: a function in cli.h, a file cmd_NAME.c, its flags and examples here, and a row
 * of cli_commands[]. Help, the manual, completion and docs/options.md follow without other changes;
 * the words after `help` that completion offers are a list in the row of `help`.
 * A test compares docs/options.md with the output of `fast help --markdown`.
 */
#include "cli_tables.h"

#include <string.h>

/* A flag of a command; its value goes to the command's own code, so it has no field. */
#define FLAG(name, help)                                     \
    {                                                        \
        name, "no", help, FAST_OPTION_BOOL, 0, 0, 0, 0, NULL \
    }
#define FLAG_END                                             \
    {                                                        \
        NULL, NULL, NULL, FAST_OPTION_BOOL, 0, 0, 0, 0, NULL \
    }

static const fast_option train_flags[] = {
    FLAG("json", "print the result as one JSON object, the last line of standard output"),
    FLAG("quiet", "say nothing while training"),
    FLAG("lockstep", "wait for a line of standard input after each evaluation; the end of the "
                     "input ends the run "
                     "and saves nothing: for programs that decide whether training continues"),
    FLAG("confusion", "show the figures of each class and the confusion matrix at the end"),
    { "metrics_port", "",
      "serve what is measured at /metrics (OpenMetrics) on this port of "
      "127.0.0.1; 0: on a free one",
      FAST_OPTION_INT, 0, 0, 0, 65535, NULL },
    FLAG_END,
};

/* Flags of predict and evaluate: how a model is opened. */
#define FLAG_TEXT(name, help, kind)                        \
    {                                                      \
        name, "", help, FAST_OPTION_TEXT, 0, 0, 0, 0, kind \
    }
#define MODEL_FLAGS                                                                               \
    FLAG_TEXT("model", "the network, for a file that does not describe itself", "model"),         \
        FLAG_TEXT("data", "the training data, for a file that does not describe itself", "data"), \
        FLAG_TEXT("engine", "compute with this engine; else the fastest", "engine"),              \
    {                                                                                             \
        "batch", "0", "samples of a pass; 0: as in training", FAST_OPTION_INT, 0, 0, 0, 65536,    \
            NULL                                                                                  \
    }

static const fast_option predict_flags[] = {
    FLAG_TEXT("out", "write to this file; .npy, .json and .csv name the format", "file"),
    { "format", "auto", "how predictions are written; auto: by the name of --out, else CSV",
      FAST_OPTION_CHOICE, 0, 0, 0, 0, "auto|csv|json|npy" },
    { "values", "class",
      "for classes: the most probable one, all probabilities, or logits (before the softmax)",
      FAST_OPTION_CHOICE, 0, 0, 0, 0, "class|probabilities|logits" },
    { "top", "1", "write the K most probable classes", FAST_OPTION_INT, 0, 0, 1, 65536, NULL },
    FLAG_TEXT("prompt", "text that a language model continues; else the text of DATA", NULL),
    { "length", "200", "characters to generate", FAST_OPTION_INT, 0, 0, 0, 1e9, NULL },
    { "temperature", "1",
      "below 1: more often the probable characters; 0: always the most probable", FAST_OPTION_REAL,
      0, 0, 0, 1000, NULL },
    { "top_k", "0", "draw among the K most probable characters; 0: among all", FAST_OPTION_INT, 0,
      0, 0, 256, NULL },
    { "seed", "1", "of the draws: the same seed gives the same text", FAST_OPTION_INT, 0, 0, 0,
      1e15, NULL },
    MODEL_FLAGS,
    FLAG_END,
};

static const fast_option evaluate_flags[] = {
    FLAG("json", "print loss and all figures as one JSON object"),
    MODEL_FLAGS,
    FLAG_END,
};

static const fast_option show_flags[] = {
    FLAG("json", "print the description as one JSON object"),
    FLAG_END,
};

static const fast_option export_flags[] = {
    { "model", "", "the network, as in its training: for a file that has none", FAST_OPTION_TEXT, 0,
      0, 0, 0, "model" },
    { "data", "", "the training data: for a file that does not describe them", FAST_OPTION_TEXT, 0,
      0, 0, 0, "data" },
    FLAG_END,
};

static const fast_option compare_flags[] = {
    { "seeds", "3", "runs of each line, with seeds that follow one another", FAST_OPTION_INT, 0, 0,
      1, 1000, NULL },
    { "tune", "",
      "give every line the same trials: lr=0.05,0.1 or lr=0.0125..0.8x2; can be repeated; no: none",
      FAST_OPTION_TEXT, 0, 0, 0, 0, NULL },
    { "searcher", "grid", "how trials are chosen and ended: fast help searchers", FAST_OPTION_TEXT,
      0, 0, 0, 0, "searcher" },
    { "jobs", "0", "runs at a time; 0: one a core on sim, else 1", FAST_OPTION_INT, 0, 0, 1, 64,
      NULL },
    { "budget", "",
      "end every run after 10s of training, 5MB sent or 100000samples, and compare by that; steps "
      "are fitted to it",
      FAST_OPTION_TEXT, 0, 0, 0, 0, NULL },
    { "changes", "auto",
      "on sim, say whether a slower network or more workers would change the answer, by two runs "
      "each",
      FAST_OPTION_CHOICE, 0, 0, 0, 0, "auto|no" },
    { "report", "", "write a report to this file, one HTML page that needs no network",
      FAST_OPTION_TEXT, 0, 0, 0, 0, "file" },
    { "progress", "bar", "say how far it is: a bar, or JSON objects, a line each, for programs",
      FAST_OPTION_CHOICE, 0, 0, 0, 0, "bar|json" },
    FLAG("json", "print one JSON object a line for each way of training, then one of the verdict"),
    FLAG("quiet", "say nothing while it runs"),
    FLAG_END,
};

static const fast_option search_flags[] = {
    { "tune", "",
      "values or a range of an option to search: lr=0.001..1:log, batch=8,16,32; can be repeated",
      FAST_OPTION_TEXT, 0, 0, 0, 0, NULL },
    { "searcher", "race", "how trials are chosen and ended: fast help searchers", FAST_OPTION_TEXT,
      0, 0, 0, 0, "searcher" },
    { "jobs", "0", "trials at a time; 0: one a core on sim, else 1", FAST_OPTION_INT, 0, 0, 1, 64,
      NULL },
    { "budget", "",
      "end every trial after 10s of training, 5MB sent or 100000samples, and compare by that; "
      "steps are fitted to it",
      FAST_OPTION_TEXT, 0, 0, 0, 0, NULL },
    FLAG("json", "print one JSON object a line for each trial, then one of the result"),
    FLAG("quiet", "say nothing while it runs"),
    FLAG_END,
};

/* Those of the part "plan", before the options of a run, of which some have another meaning:
 *
 *     batch        of a step over all workers, not of a worker
 *     memory       of a worker, not of the process
 *     accumulate   0 leaves it to the planner, as an empty mesh, layout, cuts and pipeline do
 */
static const fast_option plan_flags[] = {
    FLAG("json", "print one JSON object a line for each plan, then one of the result"),
    FLAG("quiet", "say nothing while it searches"),
    { "cluster", "", "nodes and links: a preset, or a file, whose nodes may have a capacity",
      FAST_OPTION_TEXT, 0, 0, 0, 0, "cluster" },
    { "workers", "0", "workers at most; 0: as many as the cluster has nodes", FAST_OPTION_INT, 0, 0,
      0, 256, NULL },
    { "batch", "64", "samples of a step, over all workers", FAST_OPTION_INT, 0, 0, 1, 1 << 24,
      NULL },
    { "memory", "", "memory that a worker may take, like 64MB; else the capacity of its node",
      FAST_OPTION_TEXT, 0, 0, 0, 0, NULL },
    { "planner", "exhaustive", "how plans are searched: fast help planners", FAST_OPTION_TEXT, 0, 0,
      0, 0, "planner" },
    { "top", "3", "plans to show", FAST_OPTION_INT, 0, 0, 1, 512, NULL },
    { "verify", "sim",
      "train the plans that are shown for a few steps: on the simulator, or on this machine",
      FAST_OPTION_CHOICE, 0, 0, 0, 0, "sim|threads|no" },
    { "dry_runs", "48",
      "plans that are measured on the simulator without data, the best by the estimate",
      FAST_OPTION_INT, 0, 0, 1, 512, NULL },
    { "mesh", "", "dimensions that are given, like pipe=4; else any", FAST_OPTION_TEXT, 0, 0, 0, 0,
      "mesh" },
    { "layout", "", "how shards split layers; else any", FAST_OPTION_TEXT, 0, 0, 0, 0, NULL },
    { "cuts", "", "first layers of the later stages; else any", FAST_OPTION_TEXT, 0, 0, 0, 0,
      NULL },
    { "pipeline", "", "schedule of the stages: 1f1b, gpipe or pipedream; else 1f1b",
      FAST_OPTION_TEXT, 0, 0, 0, 0, NULL },
    { "accumulate", "0", "micro-batches of a step; 0: any", FAST_OPTION_INT, 0, 0, 0, 1 << 16,
      NULL },
    { "strategy", "",
      "allreduce, zero or ps along data; else allreduce, or zero where memory is short",
      FAST_OPTION_TEXT, 0, 0, 0, 0, "strategy" },
    { "recompute", "yes", "compute activations twice where memory is short", FAST_OPTION_BOOL, 0, 0,
      0, 0, NULL },
    FLAG_END,
};

static const fast_option find_lr_flags[] = {
    { "lr_min", "1e-5", "learning rate of the first step", FAST_OPTION_REAL, 0, 0, 0, 0, NULL },
    { "lr_max", "10", "learning rate of the last step", FAST_OPTION_REAL, 0, 0, 0, 0, NULL },
    FLAG("json", "print one JSON object a line: a step each, then the result"),
    FLAG_END,
};

static const fast_option bench_flags[] = {
    FLAG("json", "print one JSON object a line for each measurement"),
    { "actors", "0", "sim: actors in the ring; 0: 64, 1024 and 4096", FAST_OPTION_INT, 0, 0, 0,
      65536, NULL },
    { "machine", "this",
      "forecast: the device, this or titan-x, k80, p100, v100, a100, h100, h200, core-avx2, "
      "core-avx512",
      FAST_OPTION_TEXT, 0, 0, 0, 0, NULL },
    { "processors", "16", "forecast: P of Brent's bounds", FAST_OPTION_INT, 0, 0, 1, 1e9, NULL },
    { "hosts", "", "cluster: start mpirun with a rank on each of these hosts: a,b,c",
      FAST_OPTION_TEXT, 0, 0, 0, 0, NULL },
    { "cluster", "",
      "sim, allreduce, pipeline: what is simulated, a preset or a file; sim: else ideal",
      FAST_OPTION_TEXT, 0, 0, 0, 0, "cluster" },
    { "transport", "threads",
      "allreduce: what runs the workers; cluster: else mpi; pipeline: else sim", FAST_OPTION_TEXT,
      0, 0, 0, 0, "transport" },
    { "algorithm", "", "allreduce: by which algorithm, or auto; each where none is named",
      FAST_OPTION_TEXT, 0, 0, 0, 0, "allreduce" },
    { "bytes", "1Ki-32Mi",
      "allreduce: lengths, 4096,1Mi or from-to by factors of 8; Ki, Mi, Gi are powers of 1024; "
      "codec: of the vector, else 16Mi",
      FAST_OPTION_TEXT, 0, 0, 0, 0, NULL },
    { "codec", "all", "codec: a codec, with its options and stages, or all of them",
      FAST_OPTION_TEXT, 0, 0, 0, 0, "codec" },
    FLAG("fresh", "allreduce: write the vectors before each call, and check the sums"),
    { "timeout", "30", "allreduce, cluster: seconds that a wait takes at most; cluster: else 120",
      FAST_OPTION_REAL, 0, 0, 0, 0, NULL },
    FLAG_END,
};

static const fast_option simulate_flags[] = {
    FLAG("json", "print one JSON object a line for each simulation"),
    FLAG_END,
};

static const fast_option systems_flags[] = {
    FLAG("all", "print the whole table: taxonomy, flags, remarks and aliases"),
    FLAG("json", "print one JSON object a line for each system"),
    FLAG("markdown", "print all systems as Markdown: docs/systems.md"),
    FLAG_END,
};

static const fast_option ui_flags[] = {
    { "store", "", "the runs to show; else the user's own", FAST_OPTION_TEXT, 0, 0, 0, 0, "file" },
    { "port", "8420",
      "listen on this port; 0: on a free one, which the standard port becomes too "
      "where it is taken",
      FAST_OPTION_INT, 0, 0, 0, 65535, NULL },
    { "host", "127.0.0.1", "listen on this address; one of the network needs --cert and --key",
      FAST_OPTION_TEXT, 0, 0, 0, 0, NULL },
    { "origin", "",
      "the address that browsers open, behind a proxy or by name: "
      "https://fast.example.org",
      FAST_OPTION_TEXT, 0, 0, 0, 0, NULL },
    { "cert", "", "serve https with this certificate (PEM)", FAST_OPTION_TEXT, 0, 0, 0, 0, "file" },
    { "key", "", "the private key of the certificate (PEM)", FAST_OPTION_TEXT, 0, 0, 0, 0, "file" },
    FLAG("insecure", "allow an address of the network without TLS: others can read the token"),
    FLAG("read_only", "show runs, but start, stop, tag and delete nothing"),
    FLAG("new_token", "replace the token, which is stored beside the runs; old links end"),
    FLAG("open", "open the page in a browser, with xdg-open"),
    { "metrics", "token", "who may read /metrics (OpenMetrics): with the token, or everybody here",
      FAST_OPTION_CHOICE, 0, 0, 0, 0, "token|open" },
    FLAG_END,
};

/* A flag with a value that the command reads itself. */
static const fast_option runs_flags[] = {
    FLAG_TEXT("store", "the run store; else runs.db in your data folder", "file"),
    FLAG_TEXT("where", "only runs like status=done,workers>=4,model~net (= != < <= > >= ~)", NULL),
    FLAG_TEXT("status", "only those, like running or done,target", NULL),
    FLAG_TEXT("search", "only runs with this in their name, words, tags, system", NULL),
    FLAG_TEXT("tag", "only runs with this tag", NULL),
    FLAG_TEXT("sort", "by a column, like time_s, or -test_accuracy: from the largest down", NULL),
    { "limit", "20", "runs in a list at most; 0: all", FAST_OPTION_INT, 0, 0, 0, 1e15, NULL },
    { "offset", "0", "runs to leave out before", FAST_OPTION_INT, 0, 0, 0, 1e15, NULL },
    { "format", "csv", "export: how", FAST_OPTION_CHOICE, 0, 0, 0, 0, "csv|jsonl" },
    FLAG("yes", "delete: do not ask"),
    FLAG("json", "print one JSON object a line for each run"),
    FLAG_END,
};

static const fast_option shard_flags[] = {
    FLAG("json", "print the result as one JSON object"),
    FLAG_END,
};

static const fast_option run_flags[] = {
    { "workers", "2", "processes to start, also -n N", FAST_OPTION_INT, 0, 0, 1, 65536, NULL },
    { "hosts", "", "start them on these hosts: a,b,c; else here", FAST_OPTION_TEXT, 0, 0, 0, 0,
      NULL },
    { "python", "python3", "the interpreter of scripts", FAST_OPTION_TEXT, 0, 0, 0, 0, "file" },
    FLAG_END,
};

static const fast_option info_flags[] = {
    FLAG("json", "print one JSON object a line"),
    FLAG_END,
};

static const fast_option help_flags[] = {
    FLAG("man", "print the manual page fast(1), for man"),
    FLAG("markdown", "print all options as Markdown: docs/options.md"),
    { "complete", "", "print a completion script for this shell", FAST_OPTION_CHOICE, 0, 0, 0, 0,
      "bash|zsh|fish" },
    FLAG_END,
};

/* Examples: the first one of each command is also shown by `fast help` alone, so it has to make
 * sense alone. */
static const cli_example train_examples[] = {
    { "fast train", "lenet on Fashion-MNIST, or on rendered digits where it is not installed" },
    { "fast train --model mlp --epochs 3 --lr 0.1", "another model, shorter, faster steps" },
    { "fast train --optimizer adamw:weight_decay=0.05 --lr 0.001 --schedule cosine:warmup=1",
      "a part's own options follow its name" },
    { "fast train --target 0.91 --save lenet.safetensors", "stop at 91% and save the weights" },
    { "fast train --checkpoint run.safetensors",
      "Ctrl-C saves; --resume run.safetensors continues" },
    { "fast train --quiet --json", "for programs: the result as one JSON object" },
    { NULL, NULL },
};

static const cli_example predict_examples[] = {
    { "fast predict iris.safetensors new.csv", "the class of each row, with its probability" },
    { "fast predict lenet.safetensors x.npy --values probabilities --out p.npy",
      "probabilities of all classes as a numpy array" },
    { "fast predict lenet.safetensors fashion-mnist --top 3 --format json",
      "the three most probable classes of each test image, an object a line" },
    { "cat rows.csv | fast predict iris.safetensors -", "a table from standard input" },
    { "fast predict gpt.safetensors --prompt 'Once upon' --length 400 --temperature 0.8",
      "text of a language model" },
    { NULL, NULL },
};

static const cli_example evaluate_examples[] = {
    { "fast evaluate iris.safetensors test.csv", "loss, accuracy, F1 and the confusion matrix" },
    { "fast evaluate lenet.safetensors npy:x=x.npy,y=y.npy --json", "the same for programs" },
    { NULL, NULL },
};

static const cli_example show_examples[] = {
    { "fast show iris.safetensors", "what a saved model is, and the command that trained it" },
    { NULL, NULL },
};

static const cli_example export_examples[] = {
    { "fast export lenet.safetensors lenet.onnx",
      "a saved model as an ONNX file, for other programs" },
    { NULL, NULL },
};

static const cli_example compare_examples[] = {
    { "fast compare --cluster hetero --report report.html",
      "eight systems on a cluster of uneven nodes: which to choose, and why" },
    { "fast compare --cluster wan --budget 60s",
      "a minute of the cluster for every run, however many epochs that is" },
    { "fast compare --system bsp,ssp,easgd --workers 2..16x2 --cluster wan",
      "a sweep: every system with 2, 4, 8 and 16 workers" },
    { "fast compare --strategy ps:slack=0..3 --cluster hetero --seeds 5",
      "a range inside of a value" },
    { "fast compare --codec none,int8,topk:ratio=0.01 --cluster ethernet-1g --tune no",
      "codecs, without trials" },
    { "fast compare --system bsp,ssp --data digits --workers 2 --transport threads --target 0.97 "
      "--tune lr=0.02,0.05",
      "on this machine, one run after the other" },
    { NULL, NULL },
};

static const cli_example bench_examples[] = {
    { "fast bench", "two numbers: samples/s of lenet, and the part of a step spent waiting" },
    { "fast bench engine", "training steps of several models, whole and by layer" },
    { "fast bench engine --model resnet8 --batch 128", "one model, another batch" },
    { "fast bench engine --json", "one JSON object a line" },
    { "fast bench forecast --model lenet", "work, depth and forecast times beside measured ones" },
    { "fast bench sim", "events a second of the simulator" },
    { "fast bench sim --cluster edge", "the same on links with jitter, loss and contention" },
    { "fast bench allreduce --workers 2", "sums over workers, by algorithm and length" },
    { "fast bench allreduce --transport sim --cluster ethernet-10g --workers 64 --bytes 100M",
      "the same on a cluster that is simulated" },
    { "mpirun -np 2 fast bench allreduce --transport mpi", "the same between processes" },
    { "fast bench pipeline", "schedules of 4 stages side by side, simulated" },
    { "fast bench pipeline --transport threads --mesh pipe=2 --model resnet20 --batch 16",
      "the same with two stages on this machine" },
    { "fast bench cluster --hosts a,b,c > my.yaml",
      "nodes and links of three hosts, as a file for --cluster" },
    { "fast bench codec", "what codecs save and cost, and on which links they pay" },
    { NULL, NULL },
};

static const cli_example simulate_examples[] = {
    { "fast simulate", "sums of four workers' vectors, without faults" },
    { "fast simulate --faults 'crash 3 at 5ms'", "who notices, when, and whom they blame" },
    { "fast simulate --program ping --workers 64 --cluster wan --faults 'slow 7 at 0s by 100'",
      "a slow node in a ring across continents" },
    { "fast simulate --faults random --seeds 1000 --shrink",
      "random faults, a thousand times; the first failure with the faults that matter alone" },
    { "fast simulate --program gossip --faults 'partition 0,1|2,3 at 1ms for 20ms'",
      "a program that gets over it" },
    { NULL, NULL },
};

static const cli_example plan_examples[] = {
    { "fast plan --cluster hetero --model gpt --data copy",
      "the best splits of a model on a cluster, with their times, and why" },
    { "fast plan --cluster ethernet-1g --workers 8 --model gpt --data copy --memory 4MB",
      "for workers that may take 4 MB each" },
    { "fast plan --planner soap:budget=500 --cluster hetero --model lenet --data digits",
      "another way to search" },
    { NULL, NULL },
};

static const cli_example search_examples[] = {
    { "fast search --tune lr=0.01..1:log --model lenet --data digits --steps 500",
      "a learning rate, by 16 trials of which most end early" },
    { "fast search --searcher bayes --tune lr=0.01..1:log --tune batch=8,16,32 --data digits "
      "--cluster hetero --workers 8 --target 0.95",
      "two options, on a simulated cluster, by the time to a target" },
    { "fast search --searcher grid --tune strategy=ps,gossip,local --data digits --cluster wan "
      "--workers 8 --budget 20s",
      "every strategy with the same 20 seconds" },
    { NULL, NULL },
};

static const cli_example find_lr_examples[] = {
    { "fast find-lr --model lenet", "the loss over growing learning rates, and one to start with" },
    { "fast find-lr --optimizer adam --lr-max 1", "another update rule and range" },
    { "fast find-lr --workers 4 --batch 64", "for a global batch of 256" },
    { "fast find-lr --steps 300 --json", "finer, for programs" },
    { NULL, NULL },
};

static const cli_example systems_examples[] = {
    { "fast systems", "a line for each system, by family" },
    { "fast systems --all", "all systems in the columns of the taxonomy, with their flags" },
    { "fast systems downpour", "one of them, with what is missing and its aliases" },
    { "fast train --workers 4 --system downpour", "train as it does" },
    { "fast systems --json", "for programs: one JSON object a line" },
    { NULL, NULL },
};

static const cli_example ui_examples[] = {
    { "fast ui", "see, compare and start runs: prints the address to open in a browser" },
    { "fast ui --open", "open it at once" },
    { "fast ui --port 8080 --metrics open", "a fixed port, and /metrics for Prometheus" },
    { "fast ui --store runs.db", "the runs of another store" },
    { NULL, NULL },
};

static const cli_example runs_examples[] = {
    { "fast runs", "the newest runs" },
    { "fast runs --where status=done,model=lenet --sort -test_accuracy", "the best first" },
    { "fast runs show 17", "one run: options, result, actors, events" },
    { "fast runs compare 17 18 21", "side by side: which options differ, and what came of it" },
    { "fast runs tag 17 baseline", "remember it; --tag baseline finds it" },
    { "fast runs export 17 > metrics.csv", "what was measured over time; --format jsonl" },
    { "fast runs delete 17", "with all that was measured" },
    { NULL, NULL },
};

static const fast_option pack_flags[] = {
    { "weights", "", "put this file of weights in, for predict, evaluate, export and show",
      FAST_OPTION_TEXT, 0, 0, 0, 0, "file" },
    FLAG("without_data", "leave the files of the data out: they must be there where it trains"),
    { "runtime", "auto", "the program to put it behind; auto: fast-runtime beside fast",
      FAST_OPTION_TEXT, 0, 0, 0, 0, "file" },
    FLAG_END,
};

static const cli_example pack_examples[] = {
    { "fast pack digits --model lenet --data digits --epochs 3",
      "a program ./digits that trains and needs nothing else" },
    { "fast pack iris --weights iris.safetensors",
      "a program ./iris that predicts: ./iris predict new.csv" },
    { NULL, NULL },
};

static const cli_example shard_examples[] = {
    { "fast shard digits --out digits-shards", "write a data set as files that can be streamed" },
    { "fast train --data shards:dir=digits-shards,cache=64Mi", "train from them, in 64 MiB" },
    { "fast shard folder:path=photos,size=64,decode=batch --out photos-shards --compression zstd",
      "decode and resize pictures once; memory for one shard is enough" },
    { NULL, NULL },
};

static const cli_example run_examples[] = {
    { "fast run -n 4 train.py", "four processes of a Python script, which calls fast.wrap()" },
    { "fast run -n 2 --hosts a,b train.py --epochs 3", "on two hosts; the rest is the script's" },
    { NULL, NULL },
};

static const cli_example info_examples[] = {
    { "fast info", "the version, the machine, and what optional libraries bring" },
    { "fast info --json", "the same for programs" },
    { NULL, NULL },
};

static const cli_example help_examples[] = {
    { "fast help train", "the options of a command" },
    { "fast help models", "all models and their options" },
    { "fast help adam", "one part and its options" },
    { "fast help --man | man -l -", "the manual page" },
    { "eval \"$(fast help --complete bash)\"", "completion in this shell" },
    { NULL, NULL },
};

/* The rows are in the order in which help lists commands. Columns: name, usage, summary, kind of
 * the part whose options are flags, own flags, words for completion, examples, function. */
const cli_command cli_commands[] = {
    { "train", "[OPTIONS]", "train a model", "train", train_flags, NULL, train_examples,
      cli_train },
    { "predict", "MODEL [DATA] [OPTIONS]",
      "use a saved model on new data: classes, probabilities, values, text", NULL, predict_flags,
      NULL, predict_examples, cli_predict },
    { "evaluate", "MODEL DATA [OPTIONS]", "measure a saved model on data with answers", NULL,
      evaluate_flags, NULL, evaluate_examples, cli_evaluate },
    { "show", "MODEL [--json]", "describe a saved model", NULL, show_flags, NULL, show_examples,
      cli_show },
    { "export", "MODEL FILE.onnx", "write a saved model as an ONNX file", NULL, export_flags, NULL,
      export_examples, cli_export },
    { "compare", "[OPTIONS]",
      "train the same job in several ways, and say which to choose; options take lists a,b and "
      "ranges 2..16x2",
      "train", compare_flags, NULL, compare_examples, cli_compare },
    { "search", "--tune OPTION=VALUES [OPTIONS]",
      "search the best values of any options by trials on held-out data, most of which end early",
      "train", search_flags, NULL, search_examples, cli_search },
    { "plan", "[OPTIONS]",
      "plan how to split a model over a cluster: the best meshes, cuts and placements", "train",
      plan_flags, NULL, plan_examples, cli_plan },
    { "find-lr", "[OPTIONS]", "find a learning rate to start with, in a hundred steps", "train",
      find_lr_flags, NULL, find_lr_examples, cli_find_lr },
    { "bench", "[engine|forecast|allreduce|pipeline|codec|sim|cluster] [OPTIONS]",
      "measure the speed of this machine", "train", bench_flags,
      "engine|forecast|allreduce|pipeline|codec|sim|cluster", bench_examples, cli_bench },
    { "simulate", "[OPTIONS]",
      "run small programs on a simulated cluster, with faults; fast train --transport sim trains",
      "simulate", simulate_flags, NULL, simulate_examples, cli_simulate },
    { "systems", "[NAME]", "explain the named systems of the literature", NULL, systems_flags, NULL,
      systems_examples, cli_systems },
    { "runs", "[list|show|compare|tag|untag|export|delete] [RUN...] [OPTIONS]",
      "list, show and compare the runs of the store", NULL, runs_flags,
      "list|show|compare|tag|untag|export|delete", runs_examples, cli_runs },
    { "ui", "[OPTIONS]", "see, compare and start runs in a browser", NULL, ui_flags, NULL,
      ui_examples, cli_ui },
    { "shard", "DATA --out FOLDER [OPTIONS]",
      "write a data set as shards on disk, to stream it through a bounded memory", "shard",
      shard_flags, NULL, shard_examples, cli_shard },
    { "run", "[-n N] [OPTIONS] SCRIPT [ARGUMENTS]",
      "start a Python script or a program as the workers of one job", NULL, run_flags, NULL,
      run_examples, cli_run },
    { "pack", "PROGRAM [OPTIONS]",
      "write one program that trains or predicts and needs nothing else", "train", pack_flags, NULL,
      pack_examples, cli_pack },
    { "info", "[--json]", "show what this build and this machine have", NULL, info_flags, NULL,
      info_examples, cli_info },
    { "help", "[COMMAND|TOPIC|PART]", "explain commands, options and parts", NULL, help_flags,
      "train|predict|evaluate|show|export|compare|search|plan|find-lr|bench|simulate|systems|runs|"
      "ui|"
      "shard|"
      "run|pack|info|"
      "help|"
      "models|data|layers|optimizers|"
      "schedules|engines|"
      "clusters|faults|strategies|topologies|codecs|representatives|searchers|planners",
      help_examples, cli_help },
    { NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL },
};

/* Groups of the options of a run, for help, the manual, docs/options.md and the form of the
 * dashboard. Every name has a bar on both sides: cli_group_of() looks for "|name|", so that `seed`
 * does not match `seeds`. */
const cli_group cli_groups[] = {
    { "What to train", "|model|data|augment|" },
    { "What to simulate", "|program|rounds|size|algorithm|work|" },
    { "How to write shards", "|out|order|compression|" },
    { "Random numbers", "|seed|seeds|shrink|tune|searcher|jobs|" },
    { "How to learn", "|batch|global_batch|lr|lr_min|lr_max|optimizer|schedule|class_weights|" },
    { "How long",
      "|epochs|steps|target|evaluate|holdout|validation|monitor|patience|min_delta|best|" },
    { "Files",
      "|save|save_codec|load|tied|checkpoint|checkpoint_every|resume|log|tensorboard|store|name|"
      "batch_of|" },
    { "Workers", "|workers|system|strategy|phases|topology|representative|shard|alpha|" },
    { "What is sent", "|codec|codec_down|feedback|codec_scope|codec_small|codec_sum|" },
    { "Where", "|transport|cluster|faults|timeout|pool|trace|record|replay|check|" },
    { "Speed", "|engine|method|plan|prefetch|preprocess|" },
    { "Other options", NULL },
};

/* Kinds of parts: `fast help models` and `fast help model` print the row's parts. */
const cli_topic cli_topics[] = {
    { "models", "model", "Models", "networks to train",
      "Choose one with --model NAME or --model NAME:KEY=VALUE,KEY=VALUE." },
    { "data", "data", "Data sets", "what to train on",
      "Choose one with --data NAME or --data NAME:KEY=VALUE,KEY=VALUE." },
    { "layers", "layer", "Layers", "the words of network files",
      "A line of a network file is NAME KEY=VALUE KEY=VALUE; use the file with --model "
      "file:PATH." },
    { "optimizers", "optimizer", "Optimizers", "update rules",
      "Choose one with --optimizer NAME or --optimizer NAME:KEY=VALUE,KEY=VALUE." },
    { "schedules", "schedule", "Schedules", "the learning rate over time",
      "Choose one with --schedule NAME or --schedule NAME:KEY=VALUE,KEY=VALUE. Times are in "
      "epochs." },
    { "engines", "engine", "Engines", "what computes", "Choose one with --engine NAME." },
    { "clusters", "cluster", "Clusters", "what the transport sim simulates",
      "Choose one with --cluster NAME or --cluster NAME:KEY=VALUE,KEY=VALUE, or give a YAML "
      "file." },
    { "faults", "fault", "Faults", "what goes wrong in simulations",
      "Give a schedule with --faults 'FAULT; FAULT; ...', or the name of a file with one fault a "
      "line, or random:count=3,kinds=crash+pause,span=10s, drawn from the seed. Nodes are numbers "
      "from 0. Times are ns, us, ms, s, min or h; without \"for\" a fault lasts to the end." },
    { "strategies", "strategy", "Strategies", "how workers cooperate",
      "Choose one with --strategy NAME or --strategy NAME:KEY=VALUE,KEY=VALUE." },
    { "topologies", "topology", "Topologies", "who exchanges with whom",
      "Choose one by NAME or NAME:KEY=VALUE,KEY=VALUE." },
    { "codecs", "codec", "Codecs", "what is sent becomes on the wire",
      "Choose one with --codec NAME or --codec NAME:KEY=VALUE,KEY=VALUE; stages, which lose "
      "nothing, follow after a "
      "plus: topk:ratio=0.01+zstd." },
    { "representatives", "representative", "Representatives",
      "which model stands for workers whose replicas differ",
      "Choose one with --representative NAME or --representative NAME:KEY=VALUE. It is tested, "
      "saved and hashed; training does not see it." },
    { "searchers", "searcher", "Searchers", "which settings of options are tried, and for how long",
      "Choose one with --searcher NAME or --searcher NAME:KEY=VALUE,KEY=VALUE, of fast search and "
      "fast compare." },
    { "planners", "planner", "Planners", "how plans of splits are searched",
      "Choose one with --planner NAME or --planner NAME:KEY=VALUE,KEY=VALUE, of fast plan." },
    { "systems", "system", "Systems", "named systems of the literature, as presets",
      "Choose one with --system NAME; fast systems NAME explains it." },
    { NULL, NULL, NULL, NULL, NULL },
};

/* fast_lab_part() has the parts of the experiments above a run (simulate); the parts of a run
 * itself are listed by fast_part_list(). */
const fast_part *cli_command_part(const cli_command *command)
{
    const fast_part *part = command->kind ? fast_lab_part(command->kind) : NULL;
    int64_t count = 0;

    if (command->kind && !part)
        part = fast_part_list(command->kind, &count);
    return part;
}

const cli_command *cli_command_find(const char *name)
{
    for (const cli_command *command = cli_commands; command->name; command++)
        if (strcmp(command->name, name) == 0)
            return command;
    return NULL;
}

const fast_part *cli_part_list(const char *kind, int64_t *count_out)
{
    return strcmp(kind, "searcher") == 0 ? fast_searcher_list(count_out)
                                         : fast_part_list(kind, count_out);
}

/* Tables are compared by address: parts that share options point to one table. */
const fast_option *cli_shared_options(const fast_part *parts, int64_t count)
{
    for (int64_t i = 1; i < count; i++)
        if (parts[i].options != parts[0].options)
            return NULL;
    return count > 1 ? parts[0].options : NULL;
}

const cli_group *cli_group_of(const fast_option *option)
{
    const cli_group *group = cli_groups;

    for (; group->names; group++) {
        const char *at = group->names;
        const size_t length = strlen(option->name);

        while ((at = strstr(at, option->name)) != NULL) {
            if (at[-1] == '|' && at[length] == '|')
                return group;
            at += length;
        }
    }
    return group;
}
