//! `ClickyInfo`: styles for drawing a graph.

use linerate_graph::{Arg, Class};

use super::INFORMATION;

pub(super) const CLASS: Class = Class {
    name: "ClickyInfo",
    summary: "styles for drawing the graph; accepted, not needed",
    description: "Clicky, which draws configurations, reads its arguments.",
    args: &[Arg::rest("STYLE", "style", "what Clicky is told")],
    example: "InfiniteSource(LIMIT 10, STOP true) -> Discard;\nClickyInfo(STYLE queue { style: none });",
    file: file!(),
    ..INFORMATION
};
