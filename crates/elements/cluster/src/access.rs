//! Arguments for the access and the memory of programs.

use linerate_cluster::Access;
use linerate_graph::{Arg, ElementBuilder, Word};

/// Most buffers of a consumer.
const CELLS_LIMIT: u32 = 1 << 16;

pub(super) const ACCESS: Arg = Arg::keyword(
    "ACCESS",
    "read, write or isolated",
    "read",
    "read packets in place, write those that only it has, or get copies in memory of its own; a program \
     with fewer rights than this one gets copies in place of `write`",
);
pub(super) const CELLS: Arg =
    Arg::keyword("CELLS", "packets", "1024", "most packets a program has at a time");

/// Reads the access of a program.
pub(super) fn parse(make: &mut ElementBuilder<'_>, default: Access) -> Access {
    let word = make.get::<Word>("ACCESS").map(|Word(word)| word);
    match word.as_deref() {
        None => default,
        Some("read") => Access::Read,
        Some("write") => Access::Write,
        Some("isolated") => Access::Isolated,
        _ => {
            make.error("ACCESS: `read`, `write` or `isolated`");
            Access::Read
        }
    }
}

/// Reads the number of packets that a program has at a time, at most.
pub(super) fn cells(make: &mut ElementBuilder<'_>) -> u32 {
    let cells = make.or("CELLS", 1024);
    if !(1..=CELLS_LIMIT).contains(&cells) {
        make.error(format!("CELLS: must be between 1 and {CELLS_LIMIT}"));
    }
    cells.clamp(1, CELLS_LIMIT)
}
