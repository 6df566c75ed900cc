//! Elements that change packets: their bytes and annotations.

use linerate_graph::Class;

mod align;
mod check_length;
mod check_paint;
mod clipboard;
mod color;
mod crc32;
mod error_element;
mod message;
mod move_data;
mod number;
mod pad;
mod paint;
mod paint_tee;
mod random_bit_errors;
mod random_sample;
mod resize;
mod search;
mod store_data;
mod strip;
mod strip_to_network_header;
mod timestamps;
mod truncate;
mod unstrip;

/// The family's classes.
pub(crate) const CLASSES: &[&Class] = &[
    &align::CLASS,
    &check_length::CLASS,
    &check_paint::CLASS,
    &clipboard::CLASS,
    &crc32::CHECK,
    &crc32::SET,
    &error_element::CLASS,
    &message::CLASS,
    &move_data::CLASS,
    &number::CHECK,
    &number::NUMBER_PACKET,
    &pad::CLASS,
    &paint::CLASS,
    &paint::SET_BYTE,
    &paint_tee::CLASS,
    &random_bit_errors::CLASS,
    &random_sample::CLASS,
    &resize::CLASS,
    &search::SEARCH,
    &search::UNSTRIP,
    &store_data::CLASS,
    &strip::CLASS,
    &strip::FLOW,
    &strip_to_network_header::CLASS,
    &timestamps::ADJUST,
    &timestamps::SET,
    &timestamps::SET_DELTA,
    &truncate::CLASS,
    &unstrip::CLASS,
];

/// The name of the family in the reference.
const FAMILY: &str = "packets";
