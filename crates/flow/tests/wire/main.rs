//! The codec beside others: messages that other programs wrote, and what other programs read in ours.

mod golden;
mod readers;
mod samples;
