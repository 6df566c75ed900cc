//! Elements of Click's user-level driver, and of FastClick's own configurations, that are left out,
//! with the reasons.

/// The reason why a group of Click's classes is left out.
struct Group {
    reason: &'static str,
    classes: &'static [&'static str],
}

const GROUPS: &[Group] = &[
    Group {
        reason: "it joins processes by DPDK's rings, or changes a network card's tables: `memif:` ports join programs, and each worker has queues of its own",
        classes: &["DeviceBalancer", "FromDPDKRing", "ToDPDKRing"],
    },
    Group {
        reason: "it rewrites the stream of a TCP connection, for which FastClick has an engine of its own",
        classes: &[
            "CTXDispatcher",
            "CTXManager",
            "FlowUnstrip",
            "HTTPIn",
            "HTTPOut",
            "TCPIn",
            "TCPOut",
            "WordMatcher",
        ],
    },
    Group {
        reason: "it chooses a clock for the program: here a frame has one reading of it, which is cheap",
        classes: &["JiffieClock", "TSCClock"],
    },
    Group {
        reason: "Click leaves it out, too, unless it is told to compile it",
        classes: &[
            "BufferConverter",
            "CopyFlowID",
            "CopyTCPSeq",
            "SchedOrderTest",
            "SnoopTCP",
            "TCPAck",
            "TCPBuffer",
            "TCPConn",
            "TCPDemux",
            "ToyTCP",
        ],
    },
    Group {
        reason: "a format of a tool that is no more: `FromDump` and `FromIPSummaryDump` read what tools of today write",
        classes: &[
            "FromCapDump",
            "FromDAGDump",
            "FromNLANRDump",
            "FromNetFlowSummaryDump",
            "FromTcpdump",
            "ToIPFlowDumps",
        ],
    },
    Group {
        reason: "tasks stay on their workers, which share no element: `StaticThreadSched` places them, and a `Queue` hands packets from one to another",
        classes: &[
            "BalancedThreadSched",
            "CPUQueue",
            "CPUSwitch",
            "MSQueue",
            "SortedTaskSched",
            "SpinlockAcquire",
            "SpinlockInfo",
            "SpinlockRelease",
        ],
    },
    Group {
        reason: "it changes the host: its firewall, its kernel's router, or the user of the process, for which a service has `User=`",
        classes: &["ChangeUID", "KernelFilter", "KernelHandlerProxy", "LinuxIPLookup"],
    },
    Group {
        reason: "only Click's optimizing tools and its own tests use it",
        classes: &[
            "AnnotationInfo",
            "CompareBlock",
            "DiscardNoFree",
            "FlowInfo",
            "IPFieldInfo",
            "IPNameInfo",
            "Null1",
            "QuitWatcher",
            "SimpleIdle",
        ],
    },
    Group {
        reason: "a socket for each flow was for PlanetLab's kernel; others answer such flows with resets, and `RawSocket` has all flows of a protocol in one socket",
        classes: &["IPFlowRawSockets"],
    },
];

/// The reason why a class of Click is left out, if it is.
pub(crate) fn reason(class: &str) -> Option<&'static str> {
    GROUPS.iter().find(|group| group.classes.contains(&class)).map(|group| group.reason)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// The guide names all of them, with the same reasons.
    #[test]
    fn classes_left_out_are_not_there_and_in_the_guide() {
        let library = linerate_elements::library();
        let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/from-click.md");
        let guide = fs::read_to_string(guide).unwrap();
        let guide = guide.split_whitespace().collect::<Vec<_>>().join(" ");
        for group in GROUPS {
            assert!(guide.contains(group.reason), "{}", group.reason);
            for class in group.classes {
                assert!(library.find(class).is_none(), "{class} is there");
                assert!(guide.contains(&format!("`{class}`")), "{class}");
                assert_eq!(reason(class), Some(group.reason));
            }
        }
        assert_eq!(reason("Queue"), None);
    }
}
