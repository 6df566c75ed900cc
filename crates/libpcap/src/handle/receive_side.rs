//! Receiving side of a handle with its counts: the part that `pcap_stats` touches, by any thread.

use std::{
    fs::File,
    os::unix::fs::FileExt,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use super::TryLock;
use crate::{
    abi::Statistics,
    inject::is_reading,
    source::{Source, Tally},
};

/// See the module.
pub(crate) struct ReceiveSide {
    pub(super) source: TryLock<Box<dyn Source>>,
    tally: Arc<dyn Tally>,
    /// Packets that the filter wanted. Written by the reading call.
    pub(super) received: AtomicU32,
    drops: Option<InterfaceDrops>,
}

impl ReceiveSide {
    /// With the drops of that interface of the kernel's.
    pub(super) fn new(source: Box<dyn Source>, interface: Option<&str>) -> ReceiveSide {
        ReceiveSide {
            tally: source.tally(),
            source: TryLock::new(source),
            received: AtomicU32::new(0),
            drops: interface.map(InterfaceDrops::for_interface),
        }
    }

    /// Statistics so far.
    ///
    /// The kernel's own counts are asked for first, unless another thread is about to receive, or a
    /// call of this thread reads: then this may be a handler that has interrupted anything. Reading
    /// calls ask for them by themselves, [once in a while](super::capture::REFRESH).
    pub(crate) fn statistics(&self) -> Statistics {
        if !is_reading()
            && let Some(mut source) = self.source.try_take()
        {
            source.refresh();
        }
        Statistics {
            received: self.received.load(Ordering::Relaxed),
            dropped: self.tally.read().dropped() as u32,
            interface_dropped: self.drops.as_ref().map_or(0, |drops| drops.since() as u32),
        }
    }
}

/// Packets that an interface has dropped before the port saw them, as libpcap counts them: packets
/// it has missed, and those its queue had no room for.
struct InterfaceDrops {
    /// Open, because a program may not see them any more later.
    files: Vec<File>,
    before: u64,
}

impl InterfaceDrops {
    fn for_interface(interface: &str) -> InterfaceDrops {
        let folder = Path::new("/sys/class/net").join(interface).join("statistics");
        InterfaceDrops::read_in(&folder)
    }

    /// Files that are not there say nothing, as of a name that is no interface.
    fn read_in(folder: &Path) -> InterfaceDrops {
        let names = ["rx_missed_errors", "rx_fifo_errors"];
        let files = names.iter().filter_map(|name| File::open(folder.join(name)).ok()).collect();
        let mut drops = InterfaceDrops { files, before: 0 };
        drops.before = drops.all();
        drops
    }

    fn since(&self) -> u64 {
        self.all().saturating_sub(self.before)
    }

    fn all(&self) -> u64 {
        // On the stack: this may be a handler of a signal.
        let mut text = [0; 24];
        let mut number = |file: &File| {
            let length = file.read_at(&mut text, 0).unwrap_or(0);
            let digits = text[..length].iter().take_while(|byte| byte.is_ascii_digit());
            digits
                .fold(0u64, |sum, digit| sum.wrapping_mul(10).wrapping_add(u64::from(digit - b'0')))
        };
        self.files.iter().map(&mut number).fold(0, u64::wrapping_add)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn drops_of_an_interface_are_those_since_it_was_opened() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("rx_missed_errors", "17\n");
        write("rx_fifo_errors", "4\n");
        let drops = InterfaceDrops::read_in(folder.path());
        assert_eq!(drops.since(), 0);
        write("rx_missed_errors", "20\n");
        write("rx_fifo_errors", "10\n");
        assert_eq!(drops.since(), 9);
        assert_eq!(InterfaceDrops::for_interface("no such interface").since(), 0);
    }
}
