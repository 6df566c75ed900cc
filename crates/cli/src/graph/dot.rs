//! A graph in Graphviz's language: push connections full, pull ones dashed.

use std::fmt::Write as _;

use linerate_graph::Processing;

use super::{Graph, Node, shortened};

pub(super) fn dot(graph: &Graph) -> String {
    let mut text =
        "digraph configuration {\n  node [shape=record, fontname=\"sans-serif\"];\n".to_owned();
    for (at, node) in graph.nodes.iter().enumerate() {
        let _ = writeln!(text, "  n{at} [label=\"{}\"];", label(node));
    }
    for edge in &graph.edges {
        let style = match edge.processing {
            Processing::Push => "",
            Processing::Pull => " [style=dashed]",
        };
        let ((from, output), (to, input)) = (edge.from, edge.to);
        let _ = writeln!(text, "  n{from}:o{output} -> n{to}:i{input}{style};");
    }
    text + "}\n"
}

/// A record: inputs, the element, outputs.
fn label(node: &Node) -> String {
    let side = |count: usize, letter: char| -> String {
        let ports: Vec<String> =
            (0..count).map(|port| format!("<{letter}{port}> {port}")).collect();
        format!("{{{}}}", ports.join("|"))
    };
    let mut words = format!("{} :: {}", escaped(&node.name), escaped(node.class));
    if !node.config.is_empty() {
        let _ = write!(words, "\\n{}", escaped(&shortened(&node.config, 40)));
    }
    if !node.workers.is_empty() {
        let workers: Vec<String> = node.workers.iter().map(usize::to_string).collect();
        let _ = write!(words, "\\nworker {}", workers.join(" "));
    }
    let mut parts = Vec::new();
    if !node.inputs.is_empty() {
        parts.push(side(node.inputs.len(), 'i'));
    }
    parts.push(words);
    if !node.outputs.is_empty() {
        parts.push(side(node.outputs.len(), 'o'));
    }
    format!("{{{}}}", parts.join("|"))
}

/// Text in a record's label, in which these characters have a meaning.
fn escaped(text: &str) -> String {
    text.chars().fold(String::new(), |mut out, c| {
        if "{}|<>\"\\ ".contains(c) {
            out.push('\\');
        }
        out.push(c);
        out
    })
}
