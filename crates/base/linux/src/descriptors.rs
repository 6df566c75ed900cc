//! The limit of open descriptors.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Most descriptors that are asked for: all listeners of a program with all their connections need fewer, and peers
/// make the kernel hold no more files than that.
const WANTED: u64 = 1 << 16;

/// Raises the soft limit of open descriptors (`RLIMIT_NOFILE`, often 1,024) to the hard one, at most 65,536, so that
/// connections to one listener leave descriptors for the others. For programs that use no `select(2)` and start none
/// that does.
pub fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(WANTED, |maximum| maximum.min(WANTED));
    if limit.current.is_some_and(|current| current < wanted) {
        // The soft limit may always be raised to the hard one; if it stays, fewer connections are accepted.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), ..limit });
    }
}
