//! `Null`, `PushNull`, `PullNull`: pass packets on. So do `EnsureDPDKBuffer`, `PathSpinlock` and
//! `Pipeliner`, which are `FastClick`'s: their purpose there is met by the engine here.

use linerate_graph::{Arg, Class, Context, Element};
use linerate_memory::Frame;

use super::FAMILY;

pub(super) const NULL: Class = Class {
    name: "Null",
    family: FAMILY,
    summary: "passes packets on unchanged",
    description: "Useful as a placeholder, and to name a point of a graph.",
    ports: "1/1",
    cost: "One call per frame; packets are not touched.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> Null -> Discard;",
    make: |_| Box::new(Null),
    writes: false,
    ..Class::here()
};

pub(super) const PUSH_NULL: Class = Class {
    name: "PushNull",
    processing: "h/h",
    summary: "passes packets on unchanged, by push only",
    example: "InfiniteSource(LIMIT 10, STOP true) -> PushNull -> Discard;",
    ..NULL
};

pub(super) const PULL_NULL: Class = Class {
    name: "PullNull",
    processing: "l/l",
    summary: "passes packets on unchanged, by pull only",
    example: "InfiniteSource(LIMIT 10, STOP true) -> Queue -> PullNull -> Discard;",
    ..NULL
};

pub(super) const ENSURE_DPDK_BUFFER: Class = Class {
    name: "EnsureDPDKBuffer",
    summary: "passes packets on: every buffer can be sent from",
    description: "In FastClick packets are copied to buffers that DPDK sends from. Here all ports \
        send from the same packet memory.",
    args: &[
        Arg::optional("FORCE_COPY", "bool", "false", "accepted"),
        Arg::optional("EXTRA_HEADROOM", "bytes", "0", "accepted"),
        Arg::keyword("FAIL", "bool", "false", "accepted"),
    ],
    example: "InfiniteSource(LIMIT 10, STOP true) -> EnsureDPDKBuffer -> Discard;",
    make: |make| {
        for unused in ["FORCE_COPY", "FAIL"] {
            let _: bool = make.or(unused, false);
        }
        let _: u32 = make.or("EXTRA_HEADROOM", 0);
        Box::new(Null)
    },
    ..NULL
};

pub(super) const PIPELINER: Class = Class {
    name: "Pipeliner",
    summary: "passes packets on, by push only",
    description: "In FastClick packets change to another thread here. Here they go on where they \
        are, which is what it does there when both are the same thread: a `ThreadSafeQueue` with an \
        `Unqueue` hands them to another worker.",
    ports: "1-/1",
    processing: "h/h",
    args: &[
        Arg::optional("CAPACITY", "packets", "1024", "accepted"),
        Arg::optional("BURST", "packets", "0", "accepted"),
        Arg::optional("BLOCKING", "bool", "true", "accepted"),
        Arg::keyword("ACTIVE", "bool", "true", "accepted"),
        Arg::keyword("ALWAYS_UP", "bool", "false", "accepted"),
        Arg::keyword("DIRECT_TRAVERSAL", "bool", "true", "accepted"),
        Arg::keyword("NOUSELESS", "bool", "true", "accepted"),
        Arg::keyword("VERBOSE", "bool", "true", "accepted"),
        Arg::keyword("PREFETCH", "bool", "true", "accepted"),
    ],
    example: "InfiniteSource(LIMIT 10, STOP true) -> Pipeliner -> Discard;",
    make: |make| {
        for unused in ["CAPACITY", "BURST"] {
            let _: i32 = make.or(unused, 0);
        }
        for unused in PIPELINER_SWITCHES {
            let _: bool = make.or(unused, true);
        }
        Box::new(Null)
    },
    ..NULL
};

const PIPELINER_SWITCHES: [&str; 7] =
    ["BLOCKING", "ACTIVE", "ALWAYS_UP", "DIRECT_TRAVERSAL", "NOUSELESS", "VERBOSE", "PREFETCH"];

pub(super) const PATH_SPINLOCK: Class = Class {
    name: "PathSpinlock",
    summary: "passes packets of each input on by its output",
    description: "In FastClick only one thread at a time goes on from here. Here every worker has \
        elements of its own behind it, and none has to wait.",
    ports: "1-/=",
    flow: "#/#",
    args: &[Arg::optional("LOCK", "name", "", "accepted")],
    example: "InfiniteSource(LIMIT 10, STOP true) -> PathSpinlock -> Discard;",
    make: |make| {
        let _: Option<String> = make.get("LOCK");
        Box::new(Parallel)
    },
    ..NULL
};

struct Parallel;

impl Element for Parallel {
    fn push(&mut self, cx: &mut Context, port: usize, frame: &mut Frame) {
        if port > 0 {
            cx.out.emit_frame(port, frame);
        }
    }

    fn pull(&mut self, cx: &mut Context, port: usize, count: usize, frame: &mut Frame) {
        cx.pull(port, count, frame);
    }
}

struct Null;

impl Element for Null {
    fn push(&mut self, _: &mut Context, _: usize, _: &mut Frame) {}
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    #[test]
    fn packets_in_a_circle_do_not_hold_the_worker_for_ever() {
        for limit in [1, 256] {
            let mut run = Run::new(
                "InfiniteSource(LIMIT 3, BURST 3, STOP true) -> c :: Counter -> n :: Null -> c",
            )
            .frame_limit(limit);
            run.run();
            assert!(run.read("c.count").parse::<u64>().unwrap() > 1_000);
            let said = run.output().matches(": packets go round in circles, dropped\n").count();
            assert_eq!(said, 1);
        }
    }

    #[test]
    fn elements_for_other_frameworks_pass_packets_on() {
        for limit in [1, 7, 32, 256] {
            let mut run = Run::new(
                "a :: InfiniteSource(LIMIT 9); b :: InfiniteSource(LIMIT 5); l :: PathSpinlock; \
                    a -> [0] l; b -> [1] l; l [0] -> p :: Pipeliner(1024, BLOCKING false); \
                    a2 :: InfiniteSource(LIMIT 1) -> [1] p; \
                    p -> EnsureDPDKBuffer(true, EXTRA_HEADROOM 64) -> c :: Counter -> Discard; \
                    l [1] -> d :: Counter -> Queue -> m :: PathSpinlock -> e :: Counter -> Unqueue \
                    -> Discard; DriverManager(wait 0.1s, stop)",
            )
            .frame_limit(limit);
            run.run();
            let counts = ["c", "d", "e"].map(|name| run.read(&format!("{name}.count")));
            assert_eq!(counts, ["10", "5", "5"]);
        }
    }

    /// The copies go on before the packet that was pulled does.
    #[test]
    fn nor_do_those_a_pulled_element_sends() {
        for limit in [1, 256] {
            let mut run = Run::new(
                "InfiniteSource(LIMIT 3, BURST 3) -> Queue -> t :: PullTee
                    -> end :: Counter -> Discard;
                DriverManager(wait 50ms, stop);
                t [1] -> c :: Counter -> n :: Null -> c",
            )
            .frame_limit(limit);
            run.run();
            assert!(run.read("c.count").parse::<u64>().unwrap() > 1_000);
            assert_eq!(run.read("end.count"), "3");
            let said = run.output().matches(": packets go round in circles, dropped\n").count();
            assert_eq!(said, 1);
        }
    }
}
