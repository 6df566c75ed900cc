//! Elements that show and measure packets, and those that burn cycles on purpose.
#![forbid(unsafe_code)]

use linerate_graph::Class;

mod average_counter;
mod burner;
mod chunks;
mod counter_groups;
mod cycle_count;
mod cycle_load;
mod memory_load;
mod print;
mod progress_bar;
mod record_timestamp;
#[cfg(test)]
mod testing;
mod timestamp_accum;
mod timestamp_diff;

pub use burner::Burner;

/// The classes of its families.
pub const FAMILIES: &[&[&Class]] = &[CLASSES];

const CLASSES: &[&Class] = &[
    &average_counter::CLASS,
    &average_counter::IMP,
    &average_counter::MP,
    &counter_groups::CLASS,
    &cycle_count::ACCUM,
    &cycle_count::ROUND_TRIP,
    &cycle_count::SET,
    &cycle_load::CLASS,
    &memory_load::CLASS,
    &print::CLASS,
    &progress_bar::CLASS,
    &record_timestamp::CLASS,
    &timestamp_accum::CLASS,
    &timestamp_diff::CLASS,
];

/// The name of the family in the reference.
const FAMILY: &str = "measuring";
