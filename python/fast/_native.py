# SPDX-License-Identifier: Apache-2.0
"""The public headers of FAST as ctypes: made by tools/python_binding.py, not written by hand.

`declare(library)` sets the types of all functions. include/fast/*.h is the reference.
"""
from ctypes import (CFUNCTYPE, POINTER, Structure, c_bool, c_char, c_char_p, c_double, c_float, c_int, c_int32,
                    c_int64, c_size_t, c_uint32, c_uint64, c_uint8, c_void_p)
from typing import Any

FAST_OK = 0
FAST_ENOMEM = -1
FAST_EINVAL = -2
FAST_ENOTSUP = -3
FAST_ETIMEDOUT = -4
FAST_EPEER = -5
FAST_ECANCELED = -6
FAST_EIO = -7
FAST_EFORMAT = -8
FAST_ENOENT = -9
FAST_LOG_DEBUG = 0
FAST_LOG_INFO = 1
FAST_LOG_WARN = 2
FAST_OPTION_BOOL = 0
FAST_OPTION_INT = 1
FAST_OPTION_REAL = 2
FAST_OPTION_TEXT = 3
FAST_OPTION_CHOICE = 4
FAST_ANY = -1
FAST_SOON = 0
FAST_AT_ONCE = -1
FAST_MSG_WORDS = 6
FAST_MSG_PARTS_MAX = 4
FAST_PERSIST_SHARES = 16
FAST_KERNEL_VECTORS = 5
FAST_SUM_LIST_MAX = 4096
FAST_STALENESS_BUCKETS = 16
FAST_EVENT_START = 0
FAST_EVENT_PROGRESS = 1
FAST_EVENT_EVALUATE = 2
FAST_EVENT_SAVE = 3
FAST_EVENT_NOTE = 4
FAST_SPACE_AFTER_MAX = 8
FAST_FIT_NONE = 0
FAST_FIT_LOSSLESS = 1
FAST_FIT_WEIGHTS = 2
FAST_FIT_CHANGES = 3
FAST_UPDATE_OPERATIONS = 4
FAST_UPDATE_BYTES = 16
FAST_LEARNER_ERROR_SIZE = 256
FAST_STORE_RUNS = 0
FAST_STORE_METRICS = 1
FAST_STORE_EVENTS = 2
FAST_STORE_WORKERS = 3
FAST_STORE_LINKS = 4
FAST_STORE_STALENESS = 5
FAST_STORE_SPANS = 6
FAST_STORE_TAGS = 7
FAST_STORE_ACTIVITY = 8
FAST_STORE_USAGE = 9
FAST_STORE_NOTES = 10
FAST_STORE_PLACES = 11
FAST_STORE_PASSES = 12
FAST_STORE_TABLES = 13
FAST_COLUMN_INT = 0
FAST_COLUMN_REAL = 1
FAST_COLUMN_TEXT = 2
FAST_COLUMN_JSON = 3
FAST_STORE_METRIC_COLUMNS = 20
FAST_STORE_NOTE_MAX = 4096

ERRORS = {  # code: (name, text)
    -1: ("ENOMEM", "out of memory"),
    -2: ("EINVAL", "invalid argument"),
    -3: ("ENOTSUP", "not supported by this build"),
    -4: ("ETIMEDOUT", "timed out"),
    -5: ("EPEER", "a peer failed or left"),
    -6: ("ECANCELED", "canceled"),
    -7: ("EIO", "input/output error"),
    -8: ("EFORMAT", "malformed message or file"),
    -9: ("ENOENT", "no such file"),
}


class fast_option(Structure):
    """struct fast_option."""


class fast_exclusion(Structure):
    """struct fast_exclusion."""


class fast_part(Structure):
    """struct fast_part."""


class fast_encoder(Structure):
    """struct fast_encoder; its fields are private."""


class fast_encoder_options(Structure):
    """struct fast_encoder_options."""


class fast_actor(Structure):
    """struct fast_actor; its fields are private."""


class fast_role(Structure):
    """struct fast_role."""


class fast_actors_result(Structure):
    """struct fast_actors_result."""


class fast_buffer(Structure):
    """struct fast_buffer; its fields are private."""


class fast_msg_part(Structure):
    """struct fast_msg_part."""


class fast_msg(Structure):
    """struct fast_msg."""


class fast_service(Structure):
    """struct fast_service; its fields are private."""


class fast_member(Structure):
    """struct fast_member."""


class fast_work(Structure):
    """struct fast_work."""


class fast_group(Structure):
    """struct fast_group; its fields are private."""


class fast_request(Structure):
    """struct fast_request; its fields are private."""


class fast_sparse(Structure):
    """struct fast_sparse."""


class fast_topology(Structure):
    """struct fast_topology; its fields are private."""


class fast_compare(Structure):
    """struct fast_compare; its fields are private."""


class fast_compare_config(Structure):
    """struct fast_compare_config."""


class fast_compare_measures(Structure):
    """struct fast_compare_measures."""


class fast_compare_point(Structure):
    """struct fast_compare_point."""


class fast_compared_run(Structure):
    """struct fast_compared_run."""


class fast_compare_spread(Structure):
    """struct fast_compare_spread."""


class fast_compared(Structure):
    """struct fast_compared."""


class fast_compare_progress(Structure):
    """struct fast_compare_progress."""


class fast_trainer(Structure):
    """struct fast_trainer."""


class fast_vector(Structure):
    """struct fast_vector."""


class fast_kernel(Structure):
    """struct fast_kernel."""


class fast_measure(Structure):
    """struct fast_measure."""


class fast_forecast_measure(Structure):
    """struct fast_forecast_measure."""


class fast_sim_measure(Structure):
    """struct fast_sim_measure."""


class fast_pipeline_measure(Structure):
    """struct fast_pipeline_measure."""


class fast_codec_measure(Structure):
    """struct fast_codec_measure."""


class fast_allreduce_measure(Structure):
    """struct fast_allreduce_measure."""


class fast_cluster_measure(Structure):
    """struct fast_cluster_measure."""


class fast_plan_row(Structure):
    """struct fast_plan_row."""


class fast_plan_result(Structure):
    """struct fast_plan_result."""


class fast_simulated(Structure):
    """struct fast_simulated."""


class fast_simulation(Structure):
    """struct fast_simulation."""


class fast_lr_point(Structure):
    """struct fast_lr_point."""


class fast_lr_range(Structure):
    """struct fast_lr_range."""


class fast_operator(Structure):
    """struct fast_operator."""


class fast_network(Structure):
    """struct fast_network; its fields are private."""


class fast_data(Structure):
    """struct fast_data; its fields are private."""


class fast_data_options(Structure):
    """struct fast_data_options."""


class fast_shards_result(Structure):
    """struct fast_shards_result."""


class fast_filter_update(Structure):
    """struct fast_filter_update."""


class fast_filter(Structure):
    """struct fast_filter."""


class fast_run(Structure):
    """struct fast_run; its fields are private."""


class fast_result(Structure):
    """struct fast_result."""


class fast_class_figures(Structure):
    """struct fast_class_figures."""


class fast_figures(Structure):
    """struct fast_figures."""


class fast_event(Structure):
    """struct fast_event."""


class fast_worker(Structure):
    """struct fast_worker."""


class fast_feature(Structure):
    """struct fast_feature."""


class fast_system(Structure):
    """struct fast_system."""


class fast_space(Structure):
    """struct fast_space; its fields are private."""


class fast_matrix(Structure):
    """struct fast_matrix."""


class fast_space_layer(Structure):
    """struct fast_space_layer."""


class fast_space_tensor(Structure):
    """struct fast_space_tensor."""


class fast_space_update(Structure):
    """struct fast_space_update."""


class fast_space_options(Structure):
    """struct fast_space_options."""


class fast_space_read(Structure):
    """struct fast_space_read."""


class fast_space_task(Structure):
    """struct fast_space_task."""


class fast_space_counters(Structure):
    """struct fast_space_counters."""


class fast_flow(Structure):
    """struct fast_flow; its fields are private."""


class fast_flow_options(Structure):
    """struct fast_flow_options."""


class fast_factored_layer(Structure):
    """struct fast_factored_layer."""


class fast_cost(Structure):
    """struct fast_cost."""


class fast_strategy(Structure):
    """struct fast_strategy."""


class fast_learner_tensor(Structure):
    """struct fast_learner_tensor."""


class fast_learner_request(Structure):
    """struct fast_learner_request."""


class fast_learner_kind(Structure):
    """struct fast_learner_kind."""


class fast_pack_options(Structure):
    """struct fast_pack_options."""


class fast_pack_result(Structure):
    """struct fast_pack_result."""


class fast_predictor(Structure):
    """struct fast_predictor; its fields are private."""


class fast_predictor_options(Structure):
    """struct fast_predictor_options."""


class fast_predictor_sizes(Structure):
    """struct fast_predictor_sizes."""


class fast_samples(Structure):
    """struct fast_samples; its fields are private."""


class fast_prediction(Structure):
    """struct fast_prediction."""


class fast_scores(Structure):
    """struct fast_scores."""


class fast_generate_options(Structure):
    """struct fast_generate_options."""


class fast_server(Structure):
    """struct fast_server; its fields are private."""


class fast_option_group(Structure):
    """struct fast_option_group."""


class fast_server_options(Structure):
    """struct fast_server_options."""


class fast_exporter(Structure):
    """struct fast_exporter; its fields are private."""


class fast_store(Structure):
    """struct fast_store; its fields are private."""


class fast_stored_run(Structure):
    """struct fast_stored_run."""


class fast_stored_metric(Structure):
    """struct fast_stored_metric."""


class fast_stored_event(Structure):
    """struct fast_stored_event."""


class fast_stored_worker(Structure):
    """struct fast_stored_worker."""


class fast_stored_link(Structure):
    """struct fast_stored_link."""


class fast_stored_staleness(Structure):
    """struct fast_stored_staleness."""


class fast_stored_span(Structure):
    """struct fast_stored_span."""


class fast_stored_activity(Structure):
    """struct fast_stored_activity."""


class fast_stored_usage(Structure):
    """struct fast_stored_usage."""


class fast_stored_note(Structure):
    """struct fast_stored_note."""


class fast_stored_place(Structure):
    """struct fast_stored_place."""


class fast_stored_pass(Structure):
    """struct fast_stored_pass."""


class fast_stored_tag(Structure):
    """struct fast_stored_tag."""


class fast_stored_comparison(Structure):
    """struct fast_stored_comparison."""


class fast_stored_view(Structure):
    """struct fast_stored_view."""


class fast_column(Structure):
    """struct fast_column."""


class fast_store_query(Structure):
    """struct fast_store_query."""


class fast_store_series(Structure):
    """struct fast_store_series."""


fast_log_fn: Any = CFUNCTYPE(None, c_void_p, c_int, c_char_p)
fast_actor_fn: Any = CFUNCTYPE(c_int, POINTER(fast_actor), c_void_p)
fast_serve_fn: Any = CFUNCTYPE(c_int, c_void_p, POINTER(POINTER(fast_msg)))
fast_report_fn: Any = CFUNCTYPE(None, c_void_p, c_int64, c_int64)
fast_compare_fn: Any = CFUNCTYPE(None, c_void_p, POINTER(fast_compare_progress))
fast_measure_fn: Any = CFUNCTYPE(None, c_void_p, POINTER(fast_measure))
fast_forecast_fn: Any = CFUNCTYPE(None, c_void_p, POINTER(fast_forecast_measure))
fast_sim_measure_fn: Any = CFUNCTYPE(None, c_void_p, POINTER(fast_sim_measure))
fast_pipeline_fn: Any = CFUNCTYPE(None, c_void_p, POINTER(fast_pipeline_measure))
fast_codec_measure_fn: Any = CFUNCTYPE(None, c_void_p, POINTER(fast_codec_measure))
fast_allreduce_measure_fn: Any = CFUNCTYPE(None, c_void_p, POINTER(fast_allreduce_measure))
fast_cluster_measure_fn: Any = CFUNCTYPE(None, c_void_p, POINTER(fast_cluster_measure))
fast_plan_progress_fn: Any = CFUNCTYPE(c_bool, c_void_p, c_char_p, c_int64, c_int64)
fast_simulate_fn: Any = CFUNCTYPE(c_bool, c_void_p, POINTER(fast_simulation))
fast_lr_point_fn: Any = CFUNCTYPE(c_bool, c_void_p, POINTER(fast_lr_point))
fast_event_fn: Any = CFUNCTYPE(None, c_void_p, POINTER(fast_event))
fast_space_save_fn: Any = CFUNCTYPE(c_size_t, c_void_p, c_void_p)
fast_space_load_fn: Any = CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t)
fast_space_fn: Any = CFUNCTYPE(c_bool, c_void_p, POINTER(fast_space_update), c_void_p)
fast_space_watch_fn: Any = CFUNCTYPE(None, c_void_p, c_int64, c_int64, c_int64)
fast_need_fn: Any = CFUNCTYPE(c_int, c_void_p, c_int64, c_int64)
fast_settle_fn: Any = CFUNCTYPE(c_int, c_void_p)
fast_learner_request_fn: Any = CFUNCTYPE(c_int, c_void_p, POINTER(fast_learner_request))
fast_generate_fn: Any = CFUNCTYPE(c_bool, c_void_p, c_char)
fast_store_row_fn: Any = CFUNCTYPE(c_int, c_void_p, c_void_p)

fast_option._fields_ = [("name", c_char_p), ("standard", c_char_p), ("help", c_char_p), ("type", c_int),
    ("offset", c_size_t), ("size", c_size_t), ("min", c_double), ("max", c_double), ("choices", c_char_p),
    ("former", c_char_p)]
fast_exclusion._fields_ = [("when", c_char_p), ("excludes", c_char_p), ("needs", c_char_p), ("why", c_char_p)]
fast_part._fields_ = [("name", c_char_p), ("summary", c_char_p), ("options", POINTER(fast_option)),
    ("exclusions", POINTER(fast_exclusion))]
fast_encoder_options._fields_ = [("size", c_size_t), ("codec", c_char_p), ("count", c_int64), ("rows", c_void_p),
    ("counts", c_void_p), ("blocks", c_int64), ("seed", c_int64), ("flow", c_int64)]
fast_role._fields_ = [("name", c_char_p), ("count", c_int64), ("main", fast_actor_fn), ("ctx", c_void_p)]
fast_actors_result._fields_ = [("time_ns", c_int64), ("actor_count", c_int64), ("ended_count", c_int64),
    ("messages_sent", c_int64), ("bytes_sent", c_int64), ("messages_stale", c_int64), ("messages_lost", c_int64),
    ("copies", c_int64), ("compute_ns", c_int64), ("wait_ns", c_int64), ("events", c_int64), ("trace_hash", c_uint64)]
fast_msg_part._fields_ = [("buffer", POINTER(fast_buffer)), ("offset", c_size_t), ("size", c_size_t)]
fast_msg._fields_ = [("from", c_int64), ("to", c_int64), ("tag", c_uint64), ("declared", c_size_t),
    ("part_count", c_int), ("generation", c_uint32), ("unreliable", c_bool), ("in_flight", c_bool),
    ("words", c_int64 * 6), ("parts", fast_msg_part * 4)]
fast_member._fields_ = [("id", c_int64), ("down", c_bool), ("ended", c_bool), ("err", c_int), ("culprit", c_int64),
    ("time", c_int64)]
fast_work._fields_ = [("run", CFUNCTYPE(c_int, POINTER(fast_work))), ("report", fast_report_fn), ("ctx", c_void_p),
    ("name", c_char_p), ("operations", c_double), ("bytes", c_double), ("sink", c_void_p)]
fast_sparse._fields_ = [("size", c_int64), ("count", c_int64), ("space", c_int64), ("index", c_void_p),
    ("value", c_void_p)]
fast_compare_config._fields_ = [("size", c_size_t), ("program", c_char_p), ("options", POINTER(c_char_p)),
    ("tune", POINTER(c_char_p)), ("seeds", c_int64), ("jobs", c_int64), ("budget", c_char_p), ("searcher", c_char_p),
    ("trials_only", c_bool), ("checkpoint", c_char_p), ("changes", c_bool), ("command", c_char_p)]
fast_compare_measures._fields_ = [("test_accuracy", c_double), ("test_loss", c_double),
    ("time_to_target_s", c_double), ("time_s", c_double), ("virtual_time_s", c_double), ("wall_time_s", c_double),
    ("steps", c_double), ("samples", c_double), ("samples_per_s", c_double), ("bytes_sent", c_double),
    ("compute_s", c_double), ("exchange_s", c_double), ("wait_s", c_double), ("codec_s", c_double),
    ("staleness_mean", c_double), ("staleness_p95", c_double), ("staleness_max", c_double), ("divergence", c_double),
    ("completeness", c_double), ("step_s", c_double), ("predicted_step_s", c_double), ("lr", c_double),
    ("workers", c_double), ("batch", c_double)]
fast_compare_point._fields_ = [("time_s", c_double), ("samples", c_double), ("bytes_sent", c_double),
    ("test_accuracy", c_double), ("test_loss", c_double), ("divergence", c_double), ("staleness_mean", c_double),
    ("progress", c_double)]
fast_compared_run._fields_ = [("seed", c_int64), ("tuned", c_char_p), ("status", c_char_p), ("error", c_char_p),
    ("command", c_char_p), ("measures", fast_compare_measures), ("points", POINTER(fast_compare_point)),
    ("point_count", c_int64), ("parent", c_int64), ("samples_before", c_double), ("time_before_s", c_double)]
fast_compare_spread._fields_ = [("median", c_double), ("min", c_double), ("max", c_double)]
fast_compared._fields_ = [("name", c_char_p), ("place", c_int64), ("error", c_char_p), ("tuned", c_char_p),
    ("reached_count", c_int64), ("failed_count", c_int64), ("to_target", fast_compare_spread),
    ("not_within", c_double), ("time_to_target_s", fast_compare_spread), ("accuracy", fast_compare_spread),
    ("test_loss", fast_compare_spread), ("time_s", fast_compare_spread), ("samples", fast_compare_spread),
    ("bytes_sent", fast_compare_spread), ("compute_share", fast_compare_spread), ("codec_share", fast_compare_spread),
    ("exchange_share", fast_compare_spread), ("wait_share", fast_compare_spread), ("staleness", fast_compare_spread),
    ("staleness_max", fast_compare_spread), ("divergence", fast_compare_spread), ("step_s", fast_compare_spread),
    ("predicted_step_s", fast_compare_spread), ("samples_per_s", fast_compare_spread),
    ("runs", POINTER(fast_compared_run)), ("run_count", c_int64), ("shown", POINTER(fast_compared_run)),
    ("trials", POINTER(fast_compared_run)), ("trial_count", c_int64)]
fast_compare_progress._fields_ = [("runs_done", c_int64), ("runs_count", c_int64), ("running", c_int64),
    ("seconds_left", c_double), ("phase", c_char_p), ("line", c_char_p), ("run", POINTER(fast_compared_run)),
    ("trial", c_bool)]
fast_vector._fields_ = [("x", c_void_p), ("shares", c_void_p), ("age", c_int64)]
fast_kernel._fields_ = [("name", c_char_p), ("operations", c_double), ("bytes", c_double), ("vectors", c_int),
    ("written", c_int), ("deferred", c_bool), ("run", CFUNCTYPE(None, c_void_p, c_int64, POINTER(c_void_p)))]
fast_measure._fields_ = [("model", c_char_p), ("layer", c_char_p), ("method", c_char_p), ("samples_per_s", c_double),
    ("gflops", c_double), ("bound_fraction", c_double)]
fast_forecast_measure._fields_ = [("model", c_char_p), ("operator_name", c_char_p), ("work", c_double),
    ("depth", c_double), ("brent_low", c_double), ("brent_high", c_double), ("bytes", c_double),
    ("device_s", c_double), ("table_s", c_double), ("measured_s", c_double)]
fast_sim_measure._fields_ = [("program", c_char_p), ("actors", c_int64), ("events", c_int64),
    ("events_per_s", c_double), ("time_s", c_double), ("virtual_time_s", c_double)]
fast_pipeline_measure._fields_ = [("pipeline", c_char_p), ("transport", c_char_p), ("stages", c_int64),
    ("micro_batches", c_int64), ("step_s", c_double), ("bubble", c_double), ("bubble_expected", c_double),
    ("in_flight", c_int64), ("staleness", c_int64), ("memory", c_int64)]
fast_codec_measure._fields_ = [("codec", c_char_p), ("bytes_in", c_int64), ("bytes_out", c_int64),
    ("encode_s", c_double), ("decode_s", c_double), ("copy_s", c_double), ("encode_gb_per_s", c_double),
    ("decode_gb_per_s", c_double), ("copy_gb_per_s", c_double), ("error", c_double),
    ("break_even_mbit_per_s", c_double)]
fast_allreduce_measure._fields_ = [("transport", c_char_p), ("algorithm", c_char_p), ("workers", c_int64),
    ("bytes", c_int64), ("seconds", c_double), ("gb_per_s", c_double), ("predicted_s", c_double)]
fast_cluster_measure._fields_ = [("transport", c_char_p), ("nodes", c_int64), ("latency_s", c_double),
    ("overhead_s", c_double), ("bandwidth", c_double), ("stream", c_double), ("eager", c_double), ("loss", c_double),
    ("retry_s", c_double), ("speeds", c_void_p), ("file", c_char_p)]
fast_plan_row._fields_ = [("options", c_char_p), ("mesh", c_char_p), ("why", c_char_p), ("pipeline", c_char_p),
    ("chunks", c_int64), ("workers", c_int64), ("batch", c_int64), ("accumulate", c_int64), ("step_s", c_double),
    ("estimate_s", c_double), ("compute_s", c_double), ("exchange_s", c_double), ("bubble", c_double),
    ("memory", c_int64), ("fullest", c_int64), ("verified_s", c_double), ("verified_memory", c_int64)]
fast_plan_result._fields_ = [("planner", c_char_p), ("model", c_char_p), ("cluster", c_char_p), ("params", c_int64),
    ("batch", c_int64), ("nodes", c_int64), ("rows", POINTER(fast_plan_row)), ("row_count", c_int64),
    ("others", POINTER(fast_plan_row)), ("other_count", c_int64), ("offered", c_int64), ("dry_runs", c_int64),
    ("unfit", c_int64), ("unfit_mesh", c_char_p), ("unfit_s", c_double), ("unfit_memory", c_int64), ("why", c_char_p),
    ("command", c_char_p)]
fast_simulated._fields_ = [("name", c_char_p), ("node", c_int64), ("life", c_int64), ("err", c_int),
    ("detail", c_char_p), ("culprit", c_char_p), ("rounds", c_int64)]
fast_simulation._fields_ = [("program", c_char_p), ("title", c_char_p), ("seed", c_int64), ("faults", c_char_p),
    ("broken", c_char_p), ("failed_count", c_int64), ("crashed_count", c_int64), ("wrong_count", c_int64),
    ("actors", POINTER(fast_simulated)), ("actor_count", c_int64), ("time_s", c_double), ("virtual_time_ns", c_int64),
    ("messages_sent", c_int64), ("bytes_sent", c_int64), ("events", c_int64), ("trace_hash", c_uint64),
    ("command", c_char_p), ("shrunk_tries", c_int64)]
fast_lr_point._fields_ = [("lr", c_double), ("loss", c_double), ("smoothed", c_double)]
fast_lr_range._fields_ = [("steps", c_int64), ("diverged", c_bool), ("steepest", c_double), ("minimum", c_double),
    ("suggested", c_double)]
fast_operator._fields_ = [("size", c_size_t), ("name", c_char_p),
    ("shape", CFUNCTYPE(c_int, c_void_p, c_int, c_void_p, c_void_p, c_void_p, c_void_p)),
    ("forward", CFUNCTYPE(None, c_void_p, c_int64, c_void_p, POINTER(c_void_p), c_void_p)),
    ("backward", CFUNCTYPE(None, c_void_p, c_int64, c_void_p, POINTER(c_void_p), c_void_p, c_void_p, POINTER(c_void_p)))]
fast_data_options._fields_ = [("size", c_size_t), ("count", c_int64), ("rank", c_int), ("shape", c_int64 * 3),
    ("x", c_void_p), ("labels", c_void_p), ("positions", c_int64), ("classes", c_int64), ("targets", c_void_p),
    ("outputs", c_int64)]
fast_shards_result._fields_ = [("train", c_int64), ("test", c_int64), ("shards", c_int64), ("bytes", c_int64)]
fast_filter_update._fields_ = [("count", c_int64), ("w", c_void_p), ("rate", c_float), ("step", c_int64),
    ("key", c_uint64)]
fast_filter._fields_ = [("size", c_size_t), ("name", c_char_p), ("options", POINTER(fast_option)),
    ("config_size", c_size_t), ("select", CFUNCTYPE(None, c_void_p, POINTER(fast_filter_update), c_void_p, c_void_p)),
    ("bound", CFUNCTYPE(c_size_t, c_void_p, c_size_t)),
    ("pack", CFUNCTYPE(c_size_t, c_void_p, c_void_p, c_size_t, c_void_p)),
    ("unpack", CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t, c_void_p, c_size_t, c_void_p))]
fast_result._fields_ = [("steps", c_int64), ("samples", c_int64), ("epoch", c_int64), ("samples_per_s", c_double),
    ("time_s", c_double), ("compute_s", c_double), ("loss", c_double), ("train_accuracy", c_double),
    ("test_loss", c_double), ("test_accuracy", c_double), ("validation_loss", c_double),
    ("validation_accuracy", c_double), ("best_step", c_int64), ("time_to_target_s", c_double),
    ("params_hash", c_uint64), ("plan_hash", c_uint64), ("param_count", c_int64), ("memory_peak", c_int64),
    ("predicted_memory", c_int64), ("model_state_bytes", c_int64), ("virtual_time_s", c_double),
    ("wall_time_s", c_double), ("exchange_s", c_double), ("wait_s", c_double), ("codec_s", c_double),
    ("encode_s", c_double), ("decode_s", c_double), ("codec_bytes_in", c_int64), ("codec_bytes_out", c_int64),
    ("break_even_mbit_per_s", c_double), ("codec_sum", c_char_p), ("codec_note", c_char_p), ("bytes_sent", c_int64),
    ("messages_sent", c_int64), ("bytes_per_step", c_double), ("waited_for", c_char_p), ("waited_share", c_double),
    ("staleness_mean", c_double), ("staleness_p50", c_int64), ("staleness_p95", c_int64), ("staleness_max", c_int64),
    ("staleness", c_int64 * 16), ("divergence", c_double), ("completeness", c_double), ("work", c_double),
    ("depth", c_double), ("predicted_step_s", c_double), ("predicted_compute_s", c_double),
    ("predicted_exchange_s", c_double), ("predicted_straggler_s", c_double), ("step_s", c_double),
    ("momentum", c_double), ("momentum_error", c_double), ("workers_lost", c_int64), ("canceled", c_bool),
    ("stop", c_char_p)]
fast_class_figures._fields_ = [("actual", c_int64), ("predicted", c_int64), ("correct", c_int64),
    ("precision", c_double), ("recall", c_double), ("f1", c_double), ("auc", c_double)]
fast_figures._fields_ = [("rows", c_int64), ("invalid", c_int64), ("classes", c_int64),
    ("by_class", POINTER(fast_class_figures)), ("confusion", c_void_p), ("accuracy", c_double),
    ("precision", c_double), ("recall", c_double), ("f1", c_double), ("auc", c_double), ("mae", c_double),
    ("rmse", c_double), ("r2", c_double)]
fast_event._fields_ = [("kind", c_int), ("step", c_int64), ("step_count", c_int64), ("epoch", c_int64),
    ("seconds_left", c_double), ("result", POINTER(fast_result)), ("text", c_char_p)]
fast_worker._fields_ = [("steps", c_int64), ("compute_s", c_double), ("exchange_s", c_double), ("wait_s", c_double),
    ("bytes_sent", c_int64), ("messages_sent", c_int64)]
fast_feature._fields_ = [("name", c_char_p), ("present", c_bool), ("version", c_char_p), ("brings", c_char_p)]
fast_system._fields_ = [("name", c_char_p), ("title", c_char_p), ("by", c_char_p), ("row", c_int64),
    ("flags", c_char_p), ("parallelism", c_char_p), ("optimisation", c_char_p), ("scheduling", c_char_p),
    ("exchange", c_char_p), ("topology", c_char_p), ("consistency", c_char_p), ("remarks", c_char_p),
    ("missing", c_char_p), ("alias_of", c_char_p), ("differs", c_char_p)]
fast_matrix._fields_ = [("rows", c_int64), ("cols", c_int64)]
fast_space_layer._fields_ = [("offset", c_int64), ("outputs", c_int64), ("inputs", c_int64), ("rows", c_int64)]
fast_space_tensor._fields_ = [("name", c_char_p), ("count", c_int64), ("initial", c_void_p)]
fast_space_update._fields_ = [("tensor", c_int64), ("offset", c_int64), ("count", c_int64), ("x", c_void_p),
    ("from", c_int64), ("clock", c_int64), ("version", c_int64), ("read", c_int64)]
fast_space_options._fields_ = [("size", c_size_t), ("name", c_char_p), ("tensors", POINTER(fast_space_tensor)),
    ("tensor_count", c_int64), ("owners", c_void_p), ("owner_count", c_int64), ("copies", c_void_p),
    ("copy_count", c_int64), ("ends", c_void_p), ("whole_tensors", c_bool), ("writers", c_void_p),
    ("writer_count", c_int64), ("eager", c_bool), ("causal", c_bool), ("stalest_first", c_bool), ("sparse", c_bool),
    ("cache_indices", c_bool), ("announce", c_int64), ("replica", c_bool), ("codec", c_char_p),
    ("filter", POINTER(fast_filter)), ("codec_down", c_char_p), ("feedback", c_int), ("codec_scope", c_int),
    ("codec_small", c_int64), ("epoch_rounds", c_int64), ("matrices", POINTER(fast_matrix)),
    ("matrix_count", c_int64), ("layers", POINTER(fast_space_layer)), ("layer_count", c_int64), ("pieces", c_bool),
    ("apply", fast_space_fn), ("ctx", c_void_p), ("save", fast_space_save_fn), ("load", fast_space_load_fn),
    ("aggregate", c_int64), ("operations", c_double), ("bytes", c_double), ("apply_on_device", c_bool)]
fast_space_read._fields_ = [("version_min", c_int64), ("clock_min", c_int64), ("either", c_bool), ("writer", c_int64),
    ("writer_count", c_int64), ("full_values", c_bool), ("version", c_int64), ("clock", c_int64)]
fast_space_task._fields_ = [("size", c_size_t), ("tensor", c_int64), ("range", c_int64), ("range_count", c_int64),
    ("push", c_void_p), ("pull", c_void_p), ("clock", c_int64), ("when", fast_space_read), ("after", c_void_p),
    ("after_count", c_int64), ("clock_seen", c_void_p)]
fast_space_counters._fields_ = [("applied", c_int64), ("rejected", c_int64), ("gets", c_int64), ("waited", c_int64),
    ("staleness_sum", c_int64), ("staleness_max", c_int64), ("refused", c_int64)]
fast_trainer._fields_ = [("actor", POINTER(fast_actor)), ("group", POINTER(fast_group)),
    ("topology", POINTER(fast_topology)), ("rank", c_int64), ("workers", c_int64), ("servers", c_int64),
    ("worker_ids", c_void_p), ("server_ids", c_void_p), ("count", c_int64), ("state_count", c_int64), ("w", c_void_p),
    ("g", c_void_p), ("s", c_void_p), ("step", c_int64), ("step_count", c_int64), ("epoch_steps", c_int64),
    ("micro_batches", c_int64), ("lr", c_double), ("loss", c_double), ("staleness", c_int64), ("period", c_int64),
    ("free_running", c_bool), ("centre", c_void_p), ("centre_version", c_int64), ("mixes_rule_state", c_bool)]
fast_flow_options._fields_ = [("size", c_size_t), ("number", c_int64), ("values", c_bool), ("raw", c_bool),
    ("down", c_bool), ("decodes", c_bool), ("offset", c_int64), ("count", c_int64)]
fast_factored_layer._fields_ = [("name", c_char_p), ("offset", c_int64), ("outputs", c_int64), ("inputs", c_int64),
    ("samples", c_int64), ("rows", c_int64)]
fast_cost._fields_ = [("allreduces", c_double), ("buckets", c_void_p), ("bucket_count", c_int64), ("moved", c_double),
    ("round_trips", c_double), ("waits", c_double), ("served", c_double), ("hidden", c_double), ("barrier", c_double)]
fast_strategy._fields_ = [("size", c_size_t), ("name", c_char_p), ("summary", c_char_p),
    ("options", POINTER(fast_option)), ("config_size", c_size_t), ("synchronous", c_bool), ("identical", c_bool),
    ("resumable", c_bool), ("shares_memory", c_bool), ("uses_codec", c_bool), ("topology", c_char_p),
    ("sends", c_char_p), ("answers", c_char_p), ("representative", c_char_p),
    ("member", CFUNCTYPE(POINTER(fast_strategy), c_void_p)), ("sends_by", CFUNCTYPE(c_char_p, c_void_p)),
    ("answers_by", CFUNCTYPE(c_char_p, c_void_p)),
    ("cost", CFUNCTYPE(None, c_void_p, POINTER(fast_trainer), POINTER(fast_cost))),
    ("servers", CFUNCTYPE(c_int64, c_void_p, c_int64)), ("check", CFUNCTYPE(c_int, c_void_p, c_int64, c_char_p)),
    ("worker", CFUNCTYPE(c_int, POINTER(fast_trainer), c_void_p)),
    ("server", CFUNCTYPE(c_int, POINTER(fast_trainer), c_void_p)), ("exclusions", POINTER(fast_exclusion)),
    ("mixes", CFUNCTYPE(c_bool, c_void_p)), ("dedicated", CFUNCTYPE(c_bool, c_void_p))]
fast_learner_tensor._fields_ = [("name", c_char_p), ("rank", c_int64), ("shape", c_int64 * 4), ("initial", c_void_p)]
fast_learner_request._fields_ = [("worker", c_int64), ("workers", c_int64), ("step", c_int64), ("seed", c_int64),
    ("batch", c_int64), ("w", c_void_p), ("g", c_void_p), ("s", c_void_p), ("count", c_int64), ("features", c_int64),
    ("targets", c_int64), ("x", c_void_p), ("labels", c_void_p), ("y", c_void_p), ("samples", c_int64),
    ("loss", c_double), ("correct", c_int64), ("counted", c_int64), ("error", c_char * 256)]
fast_learner_kind._fields_ = [("size", c_size_t), ("name", c_char_p), ("params", POINTER(fast_learner_tensor)),
    ("param_count", c_int64), ("state", POINTER(fast_learner_tensor)), ("state_count", c_int64), ("samples", c_int64),
    ("operations", c_double), ("gradient", fast_learner_request_fn), ("evaluate", fast_learner_request_fn),
    ("ctx", c_void_p), ("lr", c_void_p)]
fast_pack_options._fields_ = [("size", c_size_t), ("runtime", c_char_p), ("out", c_char_p), ("settings", c_char_p),
    ("options", POINTER(c_char_p)), ("files", POINTER(c_char_p)), ("without_data", c_bool)]
fast_pack_result._fields_ = [("files", c_int64), ("bytes", c_int64)]
fast_predictor_options._fields_ = [("size", c_size_t), ("bytes", c_void_p), ("byte_count", c_size_t),
    ("model", c_char_p), ("data", c_char_p), ("engine", c_char_p), ("plan", c_char_p), ("batch", c_int64),
    ("describe", c_bool)]
fast_predictor_sizes._fields_ = [("inputs", c_int64), ("positions", c_int64), ("outputs", c_int64),
    ("classes", c_int64), ("batch", c_int64), ("params", c_int64), ("text", c_bool)]
fast_prediction._fields_ = [("first", c_int64), ("count", c_int64), ("outputs", c_void_p),
    ("probabilities", c_void_p), ("labels", c_void_p), ("targets", c_void_p), ("loss", c_double)]
fast_scores._fields_ = [("samples", c_int64), ("loss", c_double), ("figures", fast_figures), ("json", c_char_p)]
fast_generate_options._fields_ = [("size", c_size_t), ("prompt", c_char_p), ("length", c_int64),
    ("temperature", c_double), ("top_k", c_int64), ("seed", c_int64)]
fast_option_group._fields_ = [("title", c_char_p), ("names", c_char_p)]
fast_server_options._fields_ = [("size", c_size_t), ("store", c_char_p), ("port", c_int64), ("program", c_char_p),
    ("open_metrics", c_bool), ("groups", POINTER(fast_option_group)), ("free_port", c_bool), ("host", c_char_p),
    ("origin", c_char_p), ("cert", c_char_p), ("key", c_char_p), ("insecure", c_bool), ("read_only", c_bool),
    ("new_token", c_bool)]
fast_stored_run._fields_ = [("id", c_int64), ("status", c_char_p), ("name", c_char_p), ("created", c_double),
    ("finished", c_double), ("pid", c_int64), ("host", c_char_p), ("boot", c_char_p), ("version", c_char_p),
    ("system", c_char_p), ("strategy", c_char_p), ("topology", c_char_p), ("model", c_char_p), ("data", c_char_p),
    ("transport", c_char_p), ("cluster", c_char_p), ("codec", c_char_p), ("optimizer", c_char_p), ("lr", c_double),
    ("workers", c_int64), ("batch", c_int64), ("seed", c_int64), ("batch_of", c_char_p), ("epoch", c_int64),
    ("steps", c_int64), ("step_count", c_int64), ("samples", c_int64), ("loss", c_double),
    ("train_accuracy", c_double), ("test_loss", c_double), ("test_accuracy", c_double), ("samples_per_s", c_double),
    ("time_s", c_double), ("wall_time_s", c_double), ("time_to_target_s", c_double), ("bytes_sent", c_int64),
    ("staleness_mean", c_double), ("divergence", c_double), ("params_hash", c_char_p), ("weights", c_char_p),
    ("trace", c_char_p), ("dropped", c_int64), ("error", c_char_p), ("command", c_char_p), ("options", c_char_p),
    ("machine", c_char_p), ("result", c_char_p)]
fast_stored_metric._fields_ = [("seq", c_int64), ("step", c_int64), ("epoch", c_double), ("time_s", c_double),
    ("wall_s", c_double), ("samples", c_int64), ("bytes", c_int64), ("loss", c_double), ("train_accuracy", c_double),
    ("test_loss", c_double), ("test_accuracy", c_double), ("samples_per_s", c_double), ("compute_s", c_double),
    ("exchange_s", c_double), ("wait_s", c_double), ("codec_s", c_double), ("staleness_mean", c_double),
    ("divergence", c_double), ("validation_loss", c_double), ("validation_accuracy", c_double)]
fast_stored_event._fields_ = [("seq", c_int64), ("time_s", c_double), ("step", c_int64), ("kind", c_char_p),
    ("text", c_char_p)]
fast_stored_worker._fields_ = [("rank", c_int64), ("name", c_char_p), ("steps", c_int64), ("compute_s", c_double),
    ("exchange_s", c_double), ("wait_s", c_double), ("codec_s", c_double), ("bytes_sent", c_int64),
    ("messages_sent", c_int64)]
fast_stored_link._fields_ = [("sender", c_int64), ("receiver", c_int64), ("messages", c_int64), ("bytes", c_int64),
    ("wait_s", c_double)]
fast_stored_staleness._fields_ = [("bucket", c_int64), ("updates", c_int64)]
fast_stored_span._fields_ = [("seq", c_int64), ("actor", c_int64), ("kind", c_char_p), ("start_s", c_double),
    ("end_s", c_double)]
fast_stored_activity._fields_ = [("world", c_int64), ("actor", c_int64), ("start_s", c_double), ("bin_s", c_double),
    ("bins", c_char_p)]
fast_stored_usage._fields_ = [("seq", c_int64), ("wall_s", c_double), ("cpu", c_double), ("machine_cpu", c_double),
    ("memory", c_int64), ("received_per_s", c_double), ("sent_per_s", c_double)]
fast_stored_note._fields_ = [("changed", c_double), ("text", c_char_p)]
fast_stored_place._fields_ = [("worker", c_int64), ("replica", c_int64), ("stage", c_int64), ("shard", c_int64),
    ("layers", c_char_p), ("params", c_int64)]
fast_stored_pass._fields_ = [("seq", c_int64), ("worker", c_int64), ("kind", c_char_p), ("number", c_int64),
    ("step", c_int64), ("staleness", c_int64), ("start_s", c_double), ("end_s", c_double), ("chunk", c_int64)]
fast_stored_tag._fields_ = [("tag", c_char_p)]
fast_stored_comparison._fields_ = [("name", c_char_p), ("created", c_double), ("status", c_char_p),
    ("command", c_char_p), ("verdict", c_char_p), ("result", c_char_p)]
fast_stored_view._fields_ = [("name", c_char_p), ("query", c_char_p)]
fast_column._fields_ = [("name", c_char_p), ("kind", c_int), ("offset", c_size_t)]
fast_store_query._fields_ = [("size", c_size_t), ("search", c_char_p), ("where", c_char_p), ("status", c_char_p),
    ("tag", c_char_p), ("ids", c_char_p), ("sort", c_char_p), ("limit", c_int64), ("offset", c_int64)]
fast_store_series._fields_ = [("count", c_int64), ("values", c_void_p * 20)]

FUNCTIONS = {  # name: (result, arguments)
    "fast_version": (c_char_p, []),
    "fast_err_name": (c_char_p, [c_int]),
    "fast_err_text": (c_char_p, [c_int]),
    "fast_error_detail": (c_char_p, []),
    "fast_log_set": (None, [fast_log_fn, c_void_p]),
    "fast_part_list": (POINTER(fast_part), [c_char_p, c_void_p]),
    "fast_text_quote": (c_size_t, [c_char_p, c_char_p, c_size_t]),
    "fast_text_utf8": (c_size_t, [c_char_p, c_char_p, c_size_t]),
    "fast_text_nearest": (c_char_p, [c_char_p, CFUNCTYPE(c_char_p, c_void_p, c_int64), c_void_p, c_int64]),
    "fast_encoder_open": (c_int, [POINTER(fast_encoder_options), POINTER(POINTER(fast_encoder))]),
    "fast_encoder_close": (None, [POINTER(fast_encoder)]),
    "fast_encoder_bound": (c_size_t, [POINTER(fast_encoder)]),
    "fast_encoder_encode": (c_size_t, [POINTER(fast_encoder), c_void_p, c_void_p]),
    "fast_encoder_decode": (c_int, [POINTER(fast_encoder), c_void_p, c_size_t, c_float, c_void_p]),
    "fast_actors_run": (c_int, [POINTER(c_char_p), POINTER(fast_role), c_int64, POINTER(fast_actors_result)]),
    "fast_actor_id": (c_int64, [POINTER(fast_actor)]),
    "fast_actor_count": (c_int64, [POINTER(fast_actor)]),
    "fast_actor_role": (c_char_p, [POINTER(fast_actor), c_int64]),
    "fast_actor_index": (c_int64, [POINTER(fast_actor), c_int64]),
    "fast_actor_node": (c_int64, [POINTER(fast_actor), c_int64]),
    "fast_actor_first": (c_int64, [POINTER(fast_actor), c_char_p]),
    "fast_actor_size": (c_int64, [POINTER(fast_actor), c_char_p]),
    "fast_actor_life": (c_int64, [POINTER(fast_actor)]),
    "fast_actor_is_local": (c_bool, [POINTER(fast_actor), c_int64]),
    "fast_actor_at": (None, [POINTER(fast_actor), c_int64, c_char_p]),
    "fast_now": (c_int64, [POINTER(fast_actor)]),
    "fast_random": (c_uint64, [POINTER(fast_actor)]),
    "fast_sleep_until": (c_int, [POINTER(fast_actor), c_int64]),
    "fast_buffer_new": (c_int, [POINTER(fast_actor), c_size_t, POINTER(POINTER(fast_buffer))]),
    "fast_buffer_freeze": (None, [POINTER(fast_buffer)]),
    "fast_buffer_hold": (POINTER(fast_buffer), [POINTER(fast_buffer)]),
    "fast_buffer_free": (None, [POINTER(fast_buffer)]),
    "fast_buffer_data": (c_void_p, [POINTER(fast_buffer)]),
    "fast_buffer_size": (c_size_t, [POINTER(fast_buffer)]),
    "fast_buffer_is_frozen": (c_bool, [POINTER(fast_buffer)]),
    "fast_msg_new": (c_int, [POINTER(fast_actor), c_uint64, POINTER(POINTER(fast_msg))]),
    "fast_msg_add": (None, [POINTER(fast_msg), POINTER(POINTER(fast_buffer))]),
    "fast_msg_add_view": (None, [POINTER(fast_msg), POINTER(fast_buffer), c_size_t, c_size_t]),
    "fast_msg_take": (POINTER(fast_buffer), [POINTER(fast_msg), c_int]),
    "fast_msg_data": (c_void_p, [POINTER(fast_msg), c_int]),
    "fast_msg_size": (c_size_t, [POINTER(fast_msg)]),
    "fast_msg_free": (None, [POINTER(fast_msg)]),
    "fast_send": (c_int, [POINTER(fast_actor), c_int64, POINTER(POINTER(fast_msg))]),
    "fast_receive": (c_int, [POINTER(fast_actor), c_int64, c_uint64, c_int64, POINTER(POINTER(fast_msg))]),
    "fast_serve": (c_int, [POINTER(fast_actor), c_uint64, fast_serve_fn, c_void_p, POINTER(POINTER(fast_service))]),
    "fast_service_poll": (c_int, [POINTER(fast_service)]),
    "fast_service_end": (None, [POINTER(fast_service)]),
    "fast_member_next": (c_bool, [POINTER(fast_actor), POINTER(fast_member)]),
    "fast_member_is_down": (c_bool, [POINTER(fast_actor), c_int64]),
    "fast_charge": (c_int, [POINTER(fast_actor), c_double, c_double]),
    "fast_compute": (c_int, [POINTER(fast_actor), POINTER(fast_work)]),
    "fast_work_report": (None, [POINTER(fast_work), c_double, c_int64, c_int64]),
    "fast_actor_share": (c_int, [POINTER(fast_actor), c_uint64, c_size_t, c_void_p]),
    "fast_critical_begin": (None, [POINTER(fast_actor), c_uint64]),
    "fast_critical_end": (None, [POINTER(fast_actor)]),
    "fast_group_new": (c_int, [POINTER(fast_actor), c_void_p, c_int64, c_uint32, POINTER(POINTER(fast_group))]),
    "fast_group_all": (c_int, [POINTER(fast_actor), c_char_p, POINTER(POINTER(fast_group))]),
    "fast_group_free": (None, [POINTER(fast_group)]),
    "fast_group_rank": (c_int64, [POINTER(fast_group)]),
    "fast_group_size": (c_int64, [POINTER(fast_group)]),
    "fast_group_member": (c_int64, [POINTER(fast_group), c_int64]),
    "fast_group_generation": (c_uint32, [POINTER(fast_group)]),
    "fast_barrier": (c_int, [POINTER(fast_group), c_int64]),
    "fast_broadcast": (c_int, [POINTER(fast_group), c_int64, c_void_p, c_size_t, c_int64]),
    "fast_reduce": (c_int, [POINTER(fast_group), c_int64, c_void_p, c_int64, c_int64]),
    "fast_allreduce": (c_int, [POINTER(fast_group), c_void_p, c_int64, c_int64]),
    "fast_group_range": (None, [POINTER(fast_group), c_int64, c_int64, c_void_p, c_void_p]),
    "fast_reduce_scatter": (c_int, [POINTER(fast_group), c_void_p, c_int64, c_int64]),
    "fast_allgather": (c_int, [POINTER(fast_group), c_void_p, c_int64, c_int64]),
    "fast_alltoall": (c_int, [POINTER(fast_group), c_void_p, c_int64, c_void_p, c_int64]),
    "fast_neighbour_exchange": (c_int, [POINTER(fast_group), c_void_p, c_int64, c_void_p, c_int64, c_void_p, c_int64,
        c_void_p, c_int64]),
    "fast_group_algorithm": (c_int, [POINTER(fast_group), c_char_p]),
    "fast_group_choice": (c_char_p, [POINTER(fast_group), c_int64, c_void_p]),
    "fast_allreduce_start": (c_int, [POINTER(fast_group), c_void_p, c_int64, POINTER(POINTER(fast_request))]),
    "fast_request_test": (c_int, [POINTER(fast_request), c_void_p]),
    "fast_request_wait": (c_int, [POINTER(POINTER(fast_request)), c_int64]),
    "fast_allreduce_sparse": (c_int, [POINTER(fast_group), POINTER(fast_sparse), c_void_p, c_int64]),
    "fast_allreduce_sparse_start": (c_int, [POINTER(fast_group), POINTER(fast_sparse), c_void_p,
        POINTER(POINTER(fast_request))]),
    "fast_topology_new": (c_int, [c_char_p, c_int64, c_uint64, POINTER(POINTER(fast_topology))]),
    "fast_topology_free": (None, [POINTER(fast_topology)]),
    "fast_topology_size": (c_int64, [POINTER(fast_topology)]),
    "fast_topology_degree_max": (c_int64, [POINTER(fast_topology)]),
    "fast_topology_period": (c_int64, [POINTER(fast_topology)]),
    "fast_topology_out": (c_int64, [POINTER(fast_topology), c_int64, c_int64, c_void_p, c_void_p, c_void_p]),
    "fast_topology_in": (c_int64, [POINTER(fast_topology), c_int64, c_int64, c_void_p, c_void_p, c_void_p]),
    "fast_topology_is_directed": (c_bool, [POINTER(fast_topology)]),
    "fast_topology_check": (c_int, [POINTER(fast_topology)]),
    "fast_topology_gap": (c_double, [POINTER(fast_topology)]),
    "fast_searcher_list": (POINTER(fast_part), [c_void_p]),
    "fast_searcher_missing": (c_char_p, [c_int64]),
    "fast_compare_open": (c_int, [POINTER(fast_compare_config), POINTER(POINTER(fast_compare))]),
    "fast_compare_watch": (None, [POINTER(fast_compare), fast_compare_fn, c_void_p]),
    "fast_compare_run": (c_int, [POINTER(fast_compare)]),
    "fast_compare_cancel": (None, [POINTER(fast_compare)]),
    "fast_compare_lines": (POINTER(fast_compared), [POINTER(fast_compare), c_void_p]),
    "fast_compare_verdict": (c_char_p, [POINTER(fast_compare)]),
    "fast_compare_job": (POINTER(c_char_p), [POINTER(fast_compare)]),
    "fast_compare_target": (c_double, [POINTER(fast_compare)]),
    "fast_compare_cost": (None, [POINTER(fast_compare), c_bool, c_void_p, c_void_p]),
    "fast_compare_measure": (c_char_p, [POINTER(fast_compare)]),
    "fast_compare_name": (c_char_p, [POINTER(fast_compare)]),
    "fast_compare_report": (c_int, [POINTER(fast_compare), c_char_p, c_char_p]),
    "fast_compare_json": (c_int, [POINTER(fast_compare), c_void_p]),
    "fast_compare_close": (None, [POINTER(fast_compare)]),
    "fast_trainer_persist_vector": (c_int, [POINTER(fast_trainer), c_int64, POINTER(fast_vector)]),
    "fast_trainer_model": (fast_vector, [POINTER(fast_trainer)]),
    "fast_trainer_grad": (fast_vector, [POINTER(fast_trainer)]),
    "fast_trainer_share_count": (c_int64, [POINTER(fast_trainer)]),
    "fast_trainer_share_rank": (c_int64, [POINTER(fast_trainer), c_int64]),
    "fast_trainer_shares_of": (None, [POINTER(fast_trainer), c_int64, c_void_p]),
    "fast_trainer_apply_range": (c_int, [POINTER(fast_trainer), POINTER(fast_kernel), c_void_p, POINTER(fast_vector),
        c_int64, c_int64]),
    "fast_trainer_sum_list": (c_int, [POINTER(fast_trainer), POINTER(c_void_p), c_int64, c_int64, c_void_p]),
    "fast_trainer_apply": (c_int, [POINTER(fast_trainer), POINTER(fast_kernel), c_void_p, POINTER(fast_vector)]),
    "fast_trainer_adopt": (None, [POINTER(fast_trainer), POINTER(fast_vector)]),
    "fast_trainer_sum_range": (c_int, [POINTER(fast_trainer), POINTER(fast_group), c_int64, c_int64]),
    "fast_trainer_sum_range_start": (c_int, [POINTER(fast_trainer), POINTER(fast_group), c_int64, c_int64,
        POINTER(POINTER(fast_request))]),
    "fast_trainer_sum_vector": (c_int, [POINTER(fast_trainer), POINTER(fast_vector)]),
    "fast_trainer_update_by": (c_int, [POINTER(fast_trainer), POINTER(fast_vector), c_float]),
    "fast_lab_part": (POINTER(fast_part), [c_char_p]),
    "fast_bench_engine": (c_int, [POINTER(c_char_p), fast_measure_fn, c_void_p]),
    "fast_bench_forecast": (c_int, [POINTER(c_char_p), fast_forecast_fn, c_void_p]),
    "fast_bench_sim": (c_int, [POINTER(c_char_p), fast_sim_measure_fn, c_void_p]),
    "fast_bench_pipeline": (c_int, [POINTER(c_char_p), fast_pipeline_fn, c_void_p]),
    "fast_bench_codec": (c_int, [POINTER(c_char_p), fast_codec_measure_fn, c_void_p]),
    "fast_bench_allreduce": (c_int, [POINTER(c_char_p), fast_allreduce_measure_fn, c_void_p]),
    "fast_bench_cluster": (c_int, [POINTER(c_char_p), fast_cluster_measure_fn, c_void_p]),
    "fast_plan_run": (c_int, [POINTER(c_char_p), fast_plan_progress_fn, c_void_p,
        POINTER(POINTER(fast_plan_result))]),
    "fast_plan_free": (None, [POINTER(fast_plan_result)]),
    "fast_simulate": (c_int, [POINTER(c_char_p), fast_simulate_fn, c_void_p]),
    "fast_find_lr": (c_int, [POINTER(c_char_p), c_double, c_double, fast_lr_point_fn, c_void_p,
        POINTER(fast_lr_range)]),
    "fast_network_new": (c_int, [POINTER(POINTER(fast_network))]),
    "fast_network_free": (None, [POINTER(fast_network)]),
    "fast_network_add": (c_int, [POINTER(fast_network), c_char_p]),
    "fast_network_add_operator": (c_int, [POINTER(fast_network), c_char_p, POINTER(fast_operator), c_void_p,
        c_char_p]),
    "fast_network_open": (c_int, [c_char_p, POINTER(POINTER(fast_network))]),
    "fast_data_new": (c_int, [POINTER(fast_data_options), POINTER(POINTER(fast_data))]),
    "fast_data_free": (None, [POINTER(fast_data)]),
    "fast_shards_write": (c_int, [POINTER(c_char_p), POINTER(fast_shards_result)]),
    "fast_run_open": (c_int, [POINTER(c_char_p), POINTER(POINTER(fast_run))]),
    "fast_run_open_with": (c_int, [POINTER(c_char_p), POINTER(fast_network), POINTER(fast_data), POINTER(fast_data),
        POINTER(POINTER(fast_run))]),
    "fast_run_open_filter": (c_int, [POINTER(c_char_p), POINTER(fast_filter), POINTER(POINTER(fast_run))]),
    "fast_run_watch": (None, [POINTER(fast_run), fast_event_fn, c_void_p]),
    "fast_run_train": (c_int, [POINTER(fast_run)]),
    "fast_run_cancel": (None, [POINTER(fast_run)]),
    "fast_run_result": (POINTER(fast_result), [POINTER(fast_run)]),
    "fast_run_figures": (POINTER(fast_figures), [POINTER(fast_run)]),
    "fast_run_json": (c_char_p, [POINTER(fast_run)]),
    "fast_run_id": (c_int64, [POINTER(fast_run)]),
    "fast_run_worker": (c_bool, [POINTER(fast_run), c_int64, POINTER(fast_worker)]),
    "fast_run_option": (c_char_p, [POINTER(fast_run), c_char_p]),
    "fast_run_is_first": (c_bool, [POINTER(fast_run)]),
    "fast_run_save": (c_int, [POINTER(fast_run), c_char_p]),
    "fast_run_checkpoint": (c_int, [POINTER(fast_run), c_char_p]),
    "fast_run_predict": (c_int, [POINTER(fast_run), c_int64, c_void_p, c_void_p]),
    "fast_run_inputs": (c_int64, [POINTER(fast_run)]),
    "fast_run_outputs": (c_int64, [POINTER(fast_run)]),
    "fast_run_close": (None, [POINTER(fast_run)]),
    "fast_feature_list": (POINTER(fast_feature), [c_void_p]),
    "fast_processor_name": (None, [c_char_p, c_size_t]),
    "fast_system_list": (POINTER(fast_system), [c_void_p]),
    "fast_space_ring": (c_int, [c_int64, c_int64, c_void_p, c_void_p]),
    "fast_space_open": (c_int, [POINTER(fast_actor), POINTER(fast_space_options), POINTER(POINTER(fast_space))]),
    "fast_space_close": (None, [POINTER(fast_space)]),
    "fast_space_find": (c_int64, [POINTER(fast_space), c_char_p]),
    "fast_space_put": (c_int, [POINTER(fast_space), c_int64, c_void_p, c_int64]),
    "fast_space_add": (c_int, [POINTER(fast_space), c_int64, c_void_p, c_int64]),
    "fast_space_add_factors": (c_int, [POINTER(fast_space), c_void_p, POINTER(c_void_p), c_void_p, c_int64]),
    "fast_space_add_piece": (c_int, [POINTER(fast_space), c_void_p, c_int64, c_int64]),
    "fast_space_add_end": (c_int, [POINTER(fast_space), c_void_p, c_int64]),
    "fast_space_tick": (c_int, [POINTER(fast_space), c_int64]),
    "fast_space_get": (c_int, [POINTER(fast_space), c_int64, c_void_p, POINTER(fast_space_read), c_int64]),
    "fast_space_range_count": (c_int64, [POINTER(fast_space)]),
    "fast_space_keys": (None, [POINTER(fast_space), c_int64, c_int64, c_void_p, c_void_p]),
    "fast_space_submit": (c_int, [POINTER(fast_space), POINTER(fast_space_task), c_void_p]),
    "fast_space_wait": (c_int, [POINTER(fast_space), c_int64, c_int64]),
    "fast_space_finished": (c_bool, [POINTER(fast_space), c_int64]),
    "fast_space_watch": (c_int, [POINTER(fast_space), c_int64, fast_space_watch_fn, c_void_p]),
    "fast_space_serve": (c_int, [POINTER(fast_space), c_int64]),
    "fast_space_count": (None, [POINTER(fast_space), POINTER(fast_space_counters)]),
    "fast_trainer_next": (c_bool, [POINTER(fast_trainer)]),
    "fast_trainer_gradient": (c_int, [POINTER(fast_trainer), fast_report_fn, c_void_p]),
    "fast_trainer_sum": (c_int, [POINTER(fast_trainer), c_void_p]),
    "fast_trainer_update": (c_int, [POINTER(fast_trainer), c_void_p, c_float]),
    "fast_trainer_end": (c_int, [POINTER(fast_trainer)]),
    "fast_trainer_lr": (c_double, [POINTER(fast_trainer), c_int64]),
    "fast_trainer_resumed": (c_bool, [POINTER(fast_trainer)]),
    "fast_trainer_persist": (c_int, [POINTER(fast_trainer), c_int64, c_size_t, POINTER(c_void_p)]),
    "fast_trainer_note": (None, [POINTER(fast_trainer), c_char_p]),
    "fast_trainer_codec_fit": (c_int, [POINTER(fast_trainer)]),
    "fast_trainer_space": (c_int, [POINTER(fast_trainer), POINTER(fast_space_options), POINTER(POINTER(fast_space))]),
    "fast_trainer_space_close": (c_int, [POINTER(fast_trainer), POINTER(fast_space)]),
    "fast_trainer_reference": (None, [POINTER(fast_trainer), c_void_p]),
    "fast_trainer_flow": (c_int, [POINTER(fast_trainer), POINTER(fast_flow_options), POINTER(POINTER(fast_flow))]),
    "fast_flow_bound": (c_size_t, [POINTER(fast_flow)]),
    "fast_trainer_encode": (c_int, [POINTER(fast_trainer), POINTER(fast_flow), c_void_p, c_void_p, c_void_p]),
    "fast_trainer_decode": (c_int, [POINTER(fast_trainer), POINTER(fast_flow), c_void_p, c_size_t, c_float,
        c_void_p]),
    "fast_trainer_decode_values": (c_int, [POINTER(fast_trainer), POINTER(fast_flow), c_void_p, c_size_t,
        POINTER(c_void_p)]),
    "fast_flow_receiver_copy": (c_void_p, [POINTER(fast_flow)]),
    "fast_flow_sent_fraction": (c_double, [POINTER(fast_flow)]),
    "fast_flow_reset": (None, [POINTER(fast_flow)]),
    "fast_trainer_centre": (c_int, [POINTER(fast_trainer), POINTER(c_void_p)]),
    "fast_trainer_gradient_when": (c_int, [POINTER(fast_trainer), fast_need_fn, fast_report_fn, c_void_p]),
    "fast_trainer_settle": (None, [POINTER(fast_trainer), fast_settle_fn, c_void_p]),
    "fast_trainer_micro_gradient": (c_int, [POINTER(fast_trainer), c_int64]),
    "fast_trainer_count_step": (None, [POINTER(fast_trainer)]),
    "fast_trainer_set_step": (None, [POINTER(fast_trainer), c_int64]),
    "fast_trainer_sum_cut": (c_int, [POINTER(fast_trainer), c_int64, c_void_p]),
    "fast_trainer_sum_piece": (None, [POINTER(fast_trainer), c_int64, c_void_p, c_void_p]),
    "fast_trainer_sum_start": (c_int, [POINTER(fast_trainer), c_int64, c_void_p]),
    "fast_trainer_sum_finish": (c_int, [POINTER(fast_trainer), c_int64, c_void_p]),
    "fast_trainer_factored_layer": (c_bool, [POINTER(fast_trainer), c_int64, POINTER(fast_factored_layer)]),
    "fast_trainer_use_factors": (c_int, [POINTER(fast_trainer), c_int64, c_bool]),
    "fast_trainer_factors": (c_void_p, [POINTER(fast_trainer), c_int64, c_void_p]),
    "fast_trainer_multiply_factors": (c_int, [POINTER(fast_trainer), c_int64, POINTER(c_void_p), c_void_p, c_int64,
        c_void_p]),
    "fast_trainer_can_update_range": (c_bool, [POINTER(fast_trainer)]),
    "fast_trainer_update_range": (None, [POINTER(fast_trainer), c_int64, c_double, c_void_p, c_void_p, c_float,
        c_int64, c_int64]),
    "fast_trainer_share": (c_int, [POINTER(fast_trainer), c_void_p]),
    "fast_trainer_update_shared": (c_int, [POINTER(fast_trainer), c_void_p, c_float, c_int64]),
    "fast_trainer_reset_rule": (None, [POINTER(fast_trainer)]),
    "fast_trainer_rule_slot": (c_void_p, [POINTER(fast_trainer), c_int]),
    "fast_trainer_teach": (c_int, [POINTER(fast_trainer), c_void_p, c_int64, c_double, c_double]),
    "fast_trainer_momentum": (None, [POINTER(fast_trainer), c_double, c_double]),
    "fast_run_open_strategy": (c_int, [POINTER(c_char_p), POINTER(fast_strategy), POINTER(POINTER(fast_run))]),
    "fast_run_open_learner": (c_int, [POINTER(c_char_p), POINTER(fast_learner_kind), POINTER(fast_strategy),
        POINTER(POINTER(fast_run))]),
    "fast_run_open_loop": (c_int, [POINTER(c_char_p), POINTER(fast_learner_kind), POINTER(fast_strategy),
        POINTER(POINTER(fast_run))]),
    "fast_run_next": (c_int, [POINTER(fast_run), POINTER(POINTER(fast_learner_request))]),
    "fast_pack_write": (c_int, [POINTER(fast_pack_options), POINTER(fast_pack_result)]),
    "fast_pack_read": (c_int, [c_char_p, POINTER(c_char_p)]),
    "fast_predictor_open": (c_int, [c_char_p, POINTER(fast_predictor_options), POINTER(POINTER(fast_predictor))]),
    "fast_predictor_close": (None, [POINTER(fast_predictor)]),
    "fast_predictor_get_sizes": (POINTER(fast_predictor_sizes), [POINTER(fast_predictor)]),
    "fast_predictor_class": (c_char_p, [POINTER(fast_predictor), c_int64]),
    "fast_predictor_json": (c_char_p, [POINTER(fast_predictor)]),
    "fast_predictor_export": (c_int, [POINTER(fast_predictor), c_char_p]),
    "fast_predictor_run": (c_int, [POINTER(fast_predictor), c_int64, c_void_p, c_void_p, c_void_p]),
    "fast_samples_open": (c_int, [POINTER(fast_predictor), c_char_p, c_bool, POINTER(POINTER(fast_samples))]),
    "fast_samples_close": (None, [POINTER(fast_samples)]),
    "fast_samples_next": (c_int, [POINTER(fast_samples), POINTER(fast_prediction)]),
    "fast_samples_name": (c_char_p, [POINTER(fast_samples), c_int64]),
    "fast_predictor_evaluate": (c_int, [POINTER(fast_predictor), c_char_p, POINTER(fast_scores)]),
    "fast_predictor_generate": (c_int, [POINTER(fast_predictor), POINTER(fast_generate_options), fast_generate_fn,
        c_void_p]),
    "fast_server_open": (c_int, [POINTER(fast_server_options), POINTER(POINTER(fast_server))]),
    "fast_server_url": (c_char_p, [POINTER(fast_server)]),
    "fast_server_port": (c_int64, [POINTER(fast_server)]),
    "fast_server_has_pages": (c_bool, []),
    "fast_server_run": (c_int, [POINTER(fast_server)]),
    "fast_server_stop": (None, [POINTER(fast_server)]),
    "fast_server_close": (None, [POINTER(fast_server)]),
    "fast_exporter_open": (c_int, [POINTER(fast_run), c_int64, POINTER(POINTER(fast_exporter))]),
    "fast_exporter_port": (c_int64, [POINTER(fast_exporter)]),
    "fast_exporter_update": (None, [POINTER(fast_exporter), POINTER(fast_result)]),
    "fast_exporter_close": (None, [POINTER(fast_exporter)]),
    "fast_store_columns": (POINTER(fast_column), [c_int, c_void_p]),
    "fast_store_path": (c_int, [c_char_p, c_char_p, c_size_t]),
    "fast_store_open": (c_int, [c_char_p, c_bool, POINTER(POINTER(fast_store))]),
    "fast_store_close": (None, [POINTER(fast_store)]),
    "fast_store_list": (c_int, [POINTER(fast_store), POINTER(fast_store_query), fast_store_row_fn, c_void_p,
        c_void_p]),
    "fast_store_find": (c_int, [POINTER(fast_store), c_int64, fast_store_row_fn, c_void_p]),
    "fast_store_read": (c_int, [POINTER(fast_store), c_int, c_int64, c_int64, fast_store_row_fn, c_void_p]),
    "fast_store_series_new": (c_int, [POINTER(fast_store), c_int64, c_int64, c_int64, c_int64,
        POINTER(POINTER(fast_store_series))]),
    "fast_store_series_free": (None, [POINTER(fast_store_series)]),
    "fast_store_comparisons": (c_int, [POINTER(fast_store), c_char_p, fast_store_row_fn, c_void_p]),
    "fast_store_tag": (c_int, [POINTER(fast_store), c_int64, c_char_p]),
    "fast_store_untag": (c_int, [POINTER(fast_store), c_int64, c_char_p]),
    "fast_store_note": (c_int, [POINTER(fast_store), c_int64, c_char_p]),
    "fast_store_views": (c_int, [POINTER(fast_store), fast_store_row_fn, c_void_p]),
    "fast_store_view": (c_int, [POINTER(fast_store), c_char_p, c_char_p]),
    "fast_store_delete": (c_int, [POINTER(fast_store), c_int64]),
    "fast_store_changes": (c_int, [POINTER(fast_store), c_void_p]),
}


def declare(library):
    """Set result and argument types of every function of the library."""
    for name, (result, arguments) in FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library
