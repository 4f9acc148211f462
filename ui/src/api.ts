/* SPDX-License-Identifier: Apache-2.0 */
/* What the server says, as types, and how to ask it. The names are those of the run store's columns,
   of the flags and of the JSON of `fast train --json`. A number that was not measured is null. */

export type Status = "running" | "done" | "target" | "patience" | "canceled" | "diverged" | "failed" | "interrupted";
export const STATUSES: readonly Status[] =
    ["running", "done", "target", "patience", "canceled", "diverged", "failed", "interrupted"];

/* One run, as it is listed. */
export interface Run {
    id: number;
    status: Status;
    name: string | null;
    command: string; /* the exact words, quoted for a shell */
    created: number; /* Unix seconds */
    finished: number | null;
    host: string | null;
    version: string | null;
    system: string | null;
    strategy: string | null;
    topology: string | null;
    model: string | null;
    data: string | null;
    transport: string | null;
    cluster: string | null;
    codec: string | null;
    optimizer: string | null;
    lr: number | string | null;
    workers: number | null;
    batch: number | null;
    seed: number | null;
    batch_of: string | null; /* the `fast compare` that it belongs to */
    error: string | null;
    epoch: number | null;
    steps: number | null;
    step_count: number | null; /* steps that it will take */
    samples: number | null;
    loss: number | null;
    train_accuracy: number | null;
    test_loss: number | null;
    test_accuracy: number | null;
    samples_per_s: number | null;
    time_s: number | null; /* of the cluster on `sim`, else of this machine */
    wall_time_s: number | null;
    time_to_target_s: number | null;
    bytes_sent: number | null;
    staleness_mean: number | null;
    divergence: number | null;
    params_hash: string | null;
    weights: string | null; /* path */
    trace: string | null; /* path */
    dropped: number | null; /* metric rows that the store's queue had no room for */
    tags?: string[];
    note?: string;
}

export interface RunList {
    total: number;
    runs: Run[];
}

export interface Worker {
    rank: number;
    name: string | null;
    steps: number | null;
    compute_s: number | null;
    exchange_s: number | null;
    wait_s: number | null;
    codec_s: number | null;
    bytes_sent: number | null;
    messages_sent: number | null;
}

export interface Link {
    sender: number;
    receiver: number;
    messages: number;
    bytes: number;
    wait_s: number | null; /* that the receiver was blocked for the sender */
}

/* What happened: start, note, fault, join, phase (the strategy changes), save, evaluate, stop. */
export interface Event {
    seq?: number;
    time_s: number | null;
    step: number | null;
    kind: string;
    text: string | null;
}

/* Updates by staleness: buckets 0, 1, 2, 3, 4 to 7, 8 to 15, ... */
export interface StalenessBucket {
    bucket: number;
    updates: number;
}

/* The part of a split model that a worker has. */
export interface StoredPlace {
    worker: number;
    replica: number; /* along `data` of the mesh */
    stage: number; /* along `pipe` */
    shard: number; /* along `tensor` */
    layers: string; /* with parameters, "conv1 to dense2" */
    params: number;
}

/* A pass of a micro-batch through the part of a worker; the first ones of a run are stored. */
export interface Pass {
    seq: number;
    worker: number;
    kind: string; /* forward, backward, weights, ... */
    number: number; /* of the micro-batch, over the run */
    step: number; /* of the worker */
    staleness: number | null; /* backward: updates since its weights were read */
    start_s: number;
    end_s: number;
    chunk: number | null; /* of the worker's stages; null: a run of an earlier version */
}

export type Values = Record<string, unknown>;

export interface RunDetail {
    run: Run;
    options: Values;
    machine: Values;
    result: Values;
    workers: Worker[];
    events: Event[];
    links: Link[];
    staleness: StalenessBucket[];
    tags: string[];
    places: StoredPlace[]; /* empty: the model is whole on each worker */
    passes: Pass[];
    usage: Usage;
}

/* Processor, memory and network over time, by column. */
export type Usage = Record<"wall_s" | "cpu" | "machine_cpu" | "memory" | "received_per_s" | "sent_per_s", (number | null)[]>;

/* Measured over time, by column; all have the length of seq. */
export const METRICS = ["seq", "step", "epoch", "time_s", "wall_s", "samples", "bytes", "loss", "train_accuracy",
    "test_loss", "test_accuracy", "samples_per_s", "compute_s", "exchange_s", "wait_s", "codec_s",
    "staleness_mean", "divergence", "validation_loss", "validation_accuracy"] as const;
export type Metric = (typeof METRICS)[number];
export type Metrics = Record<Metric, (number | null)[]>;

export const SPAN_KINDS = ["compute", "codec", "send", "receive", "wait", "fault"] as const;
export type SpanKind = (typeof SPAN_KINDS)[number];
export type Span = [actor: number, kind: SpanKind, start_s: number, end_s: number];
export interface Spans {
    actors: (string | { actor: number; name: string })[]; /* names, by number */
    spans: Span[]; /* the newest */
    activity?: Activity[]; /* the whole timeline */
}

/* The whole timeline of an actor in bins: thousandths of each in each kind, bin by bin. */
export const ACTIVITY_KINDS = ["compute", "codec", "send", "wait"] as const;
export interface Activity {
    world: number;
    actor: number;
    start_s: number;
    bin_s: number;
    bins: number[];
}

export interface System {
    name: string;
    title: string;
    by: string;
    row: number | null;
    flags: string;
    parallelism: string;
    optimisation: string;
    scheduling: string;
    exchange: string;
    topology: string;
    consistency: string;
    remarks: string | null;
    missing: string | null;
    alias_of: string | null;
    differs: string | null;
}

/* An option of `fast train`, or of a part. */
export interface Option {
    name: string;
    standard: string | null; /* what holds where it is not given */
    help: string;
    type: "bool" | "int" | "real" | "text" | "choice";
    choices: string[] | null;
    kind: string | null; /* of the parts that it names: "model" */
}

/* What an option can name: a model, a cluster, a codec. */
export interface Part {
    name: string;
    summary: string;
    options: Option[];
}

export interface Tables {
    groups: { title: string; names: string[] }[];
    options: Option[];
    parts: Record<string, Part[]>;
}

/* The server itself: which commands and buttons work. */
export interface ServerInfo {
    version: string;
    store: string | null; /* its path; null: the one that commands use without --store */
    starts_runs: boolean;
    read_only: boolean;
}

/* A refusal, with the server's sentence. */
export class ApiError extends Error {
    constructor(readonly status: number, message: string) {
        super(message);
    }
}

export async function ask<T>(path: string, options: RequestInit = {}): Promise<T> {
    let response: Response;
    try {
        response = await fetch(path, options);
    } catch (error) {
        if (options.signal?.aborted)
            throw error;
        throw new ApiError(0, "the server does not answer; is `fast ui` still running?");
    }
    const body = await response.json().catch(() => null);
    if (!response.ok) {
        const sentence = response.status === 401 || response.status === 403
            ? "this page has no valid token; open the address that `fast ui` prints" : response.statusText;
        throw new ApiError(response.status, body?.error ?? sentence);
    }
    return body as T;
}

export function post<T>(path: string, body: unknown = {}): Promise<T> {
    return ask<T>(path, {
        method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" },
    });
}

export const stopRun = (id: number) => post(`/api/runs/${id}/stop`);
export const deleteRun = (id: number) => ask(`/api/runs/${id}`, { method: "DELETE" });
export const tagRun = (id: number, add: string[], remove: string[]) => post(`/api/runs/${id}/tags`, { add, remove });
export const noteRun = (id: number, text: string) => post<{ note: string }>(`/api/runs/${id}/note`, { text });
export const startRun = (options: Record<string, string>) => post<{ id: number }>("/api/runs", { options });

export const startComparison = (options: Record<string, string>) => post<{ name: string }>("/api/comparisons", { options });
export const stopComparison = () => post("/api/comparisons/stop");
export const login = (token: string) => post("/api/login", { token });

/* Asked once; again after a failure, which may be a missing token. */
export async function serverInfo(): Promise<ServerInfo> {
    known ??= ask<ServerInfo>("/api/server");
    try {
        return await known;
    } catch (error) {
        known = null;
        throw error;
    }
}
let known: Promise<ServerInfo> | null = null;

/* Listens to a stream of Server-Sent Events until the signal; the browser reconnects by itself, and a
   page that is not seen lets go of its connection, of which a browser has six. `path` is asked at
   every opening; `lost` is told when the connection breaks (true) and when it is back (false). */
export function listen(path: () => string, handlers: Record<string, (data: any) => void>, signal: AbortSignal,
                       lost: (isLost: boolean) => void = () => {}): void {
    let source: EventSource | null = null;
    let ended = false;

    function open(): void {
        source = new EventSource(path());
        for (const [kind, handler] of Object.entries(handlers))
            source.addEventListener(kind, (event) => {
                if (kind === "end") {
                    ended = true;
                    close();
                }
                handler(JSON.parse((event as MessageEvent).data || "null"));
            });
        source.onerror = () => lost(true);
        source.onopen = () => lost(false);
    }

    function close(): void {
        source?.close();
        source = null;
    }

    open();
    document.addEventListener("visibilitychange", () => {
        if (document.hidden)
            close();
        else if (!source && !ended)
            open();
    }, { signal });
    signal.addEventListener("abort", close);
}
