//! Elements that read, write and summarise captures.
#![forbid(unsafe_code)]

use linerate_graph::Class;

mod aggregate_counter;
mod aggregate_counter_vector;
mod aggregate_filter;
mod aggregate_first;
mod aggregate_ip;
mod aggregate_ip_addr_pair;
mod aggregate_ip_flows;
mod aggregate_last;
mod aggregate_packet_counter;
mod aggregate_simple;
mod amount;
mod anonymize;
mod cursor;
mod encap;
mod erase_ip_payload;
mod flow_header;
mod flows;
mod from_dump;
mod from_ip_summary_dump;
mod ip_field;
mod lines;
mod listeners;
mod notifiers;
mod output;
mod replay;
mod sample;
mod source;
mod span;
mod spread;
mod stamp;
mod store_timestamp;
mod store_udp_time_seq_record;
mod summary;
#[cfg(test)]
mod test_files;
#[cfg(test)]
mod testing;
mod time_filter;
mod time_range;
mod to_dump;
mod to_ip_summary_dump;

/// The classes of its families.
pub const FAMILIES: &[&[&Class]] = &[CLASSES];

const CLASSES: &[&Class] = &[
    &aggregate_counter::CLASS,
    &aggregate_counter_vector::CLASS,
    &aggregate_filter::CLASS,
    &aggregate_first::CLASS,
    &aggregate_ip::CLASS,
    &aggregate_ip_addr_pair::CLASS,
    &aggregate_ip_flows::CLASS,
    &aggregate_last::CLASS,
    &aggregate_packet_counter::CLASS,
    &aggregate_simple::LENGTH,
    &aggregate_simple::PAINT,
    &anonymize::CLASS,
    &erase_ip_payload::CLASS,
    &from_dump::CLASS,
    &from_ip_summary_dump::CLASS,
    &replay::CLASS,
    &replay::MULTI,
    &replay::PULLED,
    &store_timestamp::CLASS,
    &store_udp_time_seq_record::CLASS,
    &time_filter::CLASS,
    &time_range::CLASS,
    &to_dump::CLASS,
    &to_ip_summary_dump::CLASS,
];

/// The name of the family in the reference.
const FAMILY: &str = "analysis";
