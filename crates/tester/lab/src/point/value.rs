//! Names of the figures in a record, for the measurements that write them and for their readers.

/// Packets per second that came out: of `forward`, `receive`, `transmit`,
/// `graph`, `pipeline`, `cluster`, `poll-rate`, `latency` and `batch-case`; in both
/// directions and of all workers together.
pub const RATE: &str = "pps";
/// Packets per second that were offered: of `latency` and `inline`.
pub const OFFERED: &str = "offered_pps";
/// Cycles of a worker per packet, waiting not included: of `forward`, `receive`, `transmit`,
/// `graph`, `pipeline`, `poll-rate` and `batch-case`; of `element`, those of the element alone; of
/// `cluster`, the time from one packet to the next.
pub const CYCLES: &str = "cycles_per_packet";
/// Mean packets of a burst or frame that was not empty: of `forward`,
/// `receive`, `transmit`, `graph`, `poll-rate` and `latency`.
pub const VECTOR: &str = "mean_vector";
/// Cycles of a burst or frame: of `graph`.
pub const CYCLES_PER_VECTOR: &str = "cycles_per_vector";
/// Mean time from one access to the next, over all chains: of `walk`.
pub const ACCESS: &str = "latency_ns";
/// Cycles that were burnt where so many were asked for: of `load`.
pub const BURNT: &str = "measured_cycles";
/// Mean time from being sent to having come back: of `latency`.
pub const LATENCY_MEAN: &str = "latency_mean_ns";
/// Mean latency while the threads were not held up: the median over windows of a millisecond of the
/// mean in each.
pub const LATENCY_TYPICAL: &str = "latency_typical_ns";
/// The median of all.
pub const LATENCY_P50: &str = "latency_p50_ns";
/// 99th percentile of the latency.
pub const LATENCY_P99: &str = "latency_p99_ns";
/// The highest rate the loads of `latency` are shares of.
pub const HIGHEST: &str = "highest_pps";
/// The share of packets that did not come out: of `latency` and `inline`.
pub const LOST: &str = "lost_share";
/// Processor time of all workers in shares of one core: of `pipeline`,
/// `cluster`, `poll-rate` and `latency`.
pub const BUSY: &str = "busy_share";
/// The share of all cores' time that goes by in looks for packets where there
/// are none, and for room: of `cluster`.
pub const POLLING: &str = "polling_share";
/// The share that giving packets to other cores takes, and taking them: of
/// `cluster`.
pub const HAND_OVER: &str = "hand_over_share";
/// Percent of a core's time for each Gbit/s: of `cluster`.
pub const RHO: &str = "rho_percent_per_gbit";
/// The part of it that is [`POLLING`].
pub const RHO_POLLING: &str = "rho_polling_percent_per_gbit";
/// The part of it that is [`HAND_OVER`].
pub const RHO_HAND_OVER: &str = "rho_hand_over_percent_per_gbit";
/// The rate of the cycle counter: of every point.
pub const COUNTER: &str = "tsc_hz";
/// Cycles of the engine itself per packet: of `graph` and `element`.
pub const ENGINE: &str = "engine_cycles_per_packet";
/// Cycles of a round that belong to no element, for each packet: of `element`.
pub const ROUND: &str = "round_cycles_per_packet";
/// Cycles of a step of known work before or behind the measurement, the larger of both: of every
/// point. Other load on the core shows in it.
pub const PACE: &str = "pace_cycles";
/// The share of the time that a thread waited for others to leave its core: of
/// every point.
pub const WAITED: &str = "waited_share";
