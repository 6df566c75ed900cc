//! A graph to be shown: as text, as a picture, for Graphviz and for programs.

mod dot;
mod layout;
mod svg;
mod text;

use linerate_graph::{Plan, Processing};
use serde_json::{Value, json};

use crate::args::GraphFormat;

/// A graph, with the workers of its elements if they are known.
#[derive(Debug)]
pub(crate) struct Graph {
    nodes: Vec<Node>,
    edges: Vec<Edge>,
}

/// An element.
#[derive(Debug)]
struct Node {
    name: String,
    class: &'static str,
    config: String,
    inputs: Vec<Processing>,
    outputs: Vec<Processing>,
    /// Workers that have a part of it; empty when that is not known.
    workers: Vec<usize>,
}

/// A connection, by elements and ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Edge {
    from: (usize, usize),
    to: (usize, usize),
    processing: Processing,
}

impl Graph {
    /// The graph of a plan; `workers` returns those that have a part of an element.
    pub(crate) fn new(plan: &Plan, workers: impl Fn(usize) -> Vec<usize>) -> Graph {
        let nodes = plan.elements.iter().enumerate().map(|(at, element)| Node {
            name: element.name.clone(),
            class: element.class.name,
            config: element.config.split_whitespace().collect::<Vec<_>>().join(" "),
            inputs: element.inputs.clone(),
            outputs: element.outputs.clone(),
            workers: workers(at),
        });
        let mut edges = Vec::new();
        for (at, element) in plan.elements.iter().enumerate() {
            for (port, targets) in element.targets.iter().enumerate() {
                edges.extend(targets.iter().map(|to| Edge {
                    from: (at, port),
                    to: (to.element, to.port),
                    processing: element.outputs[port],
                }));
            }
        }
        Graph { nodes: nodes.collect(), edges }
    }

    /// The graph as it is wanted.
    pub(crate) fn show(&self, format: GraphFormat) -> String {
        match format {
            GraphFormat::Text => text::text(self),
            GraphFormat::Dot => dot::dot(self),
            GraphFormat::Svg => svg::svg(self),
        }
    }

    /// The graph as an object of JSON, in lines.
    pub(crate) fn as_json(&self) -> String {
        format!("{:#}\n", self.json())
    }

    fn json(&self) -> Value {
        let side = |ports: &[Processing]| ports.iter().map(|port| word(*port)).collect::<Vec<_>>();
        let elements = self.nodes.iter().map(|node| {
            json!({
                "name": node.name,
                "class": node.class,
                "config": node.config,
                "inputs": side(&node.inputs),
                "outputs": side(&node.outputs),
                "workers": node.workers,
            })
        });
        let connections = self.edges.iter().map(|edge| {
            json!({
                "from": self.nodes[edge.from.0].name,
                "output": edge.from.1,
                "to": self.nodes[edge.to.0].name,
                "input": edge.to.1,
                "processing": word(edge.processing),
            })
        });
        json!({
            "elements": elements.collect::<Vec<_>>(),
            "connections": connections.collect::<Vec<_>>(),
        })
    }
}

fn word(processing: Processing) -> &'static str {
    match processing {
        Processing::Push => "push",
        Processing::Pull => "pull",
    }
}

/// A text that is not longer than it may be.
fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some(_) => text.chars().take(most - 1).collect::<String>() + "\u{2026}",
        None => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use linerate_graph::{lang::Globals, load};

    use super::*;

    pub(super) fn graph(text: &str) -> Graph {
        let library = linerate_elements::library();
        let mut loader = |_: &str, _: &str| Err(None);
        let loaded = load("config", text, &library, &Globals::default(), &mut loader);
        let plan = loaded.plan.unwrap_or_else(|| panic!("{}", loaded.found.click()));
        Graph::new(&plan, |_| vec![0])
    }

    const TEXT: &str = "i :: InfiniteSource(\"<&>\") -> t :: Tee(2) -> q :: Queue(5) -> u :: Unqueue \
        -> Discard; t[1] -> d :: Discard";

    #[test]
    fn as_text() {
        assert_eq!(
            graph(TEXT).show(GraphFormat::Text),
            "6 elements, 5 connections\n\
             \n\
             i :: InfiniteSource(\"<&>\"), worker 0\n  \
               output 0  push -> t\n\
             t :: Tee(2), worker 0\n  \
               output 0  push -> q\n  \
               output 1  push -> d\n\
             q :: Queue(5), worker 0\n  \
               output 0  pull -> u\n\
             u :: Unqueue, worker 0\n  \
               output 0  push -> Discard@5\n\
             Discard@5 :: Discard, worker 0\n\
             d :: Discard, worker 0\n"
        );
    }

    #[test]
    fn as_dot_and_json() {
        let graph = graph(TEXT);
        let dot = graph.show(GraphFormat::Dot);
        assert!(dot.starts_with("digraph "), "{dot}");
        assert!(dot.contains("n1:o1 -> n5:i0"), "{dot}");
        let value: Value = serde_json::from_str(&graph.as_json()).unwrap();
        assert_eq!(value["connections"][3]["processing"], "pull");
        assert_eq!(value["elements"][2]["config"], "5");
    }

    #[test]
    fn a_picture_of_anything() {
        for text in [TEXT, "Idle", "", "a :: Null; b :: Null; a -> b -> a; c :: Null; c -> c"] {
            let svg = graph(text).show(GraphFormat::Svg);
            assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"), "{svg}");
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            assert!(!svg.contains("\"<&>\""), "not escaped: {svg}");
        }
    }

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(shortened("äöü", 3), "äöü");
        assert_eq!(shortened("äöüß", 3), "äö\u{2026}");
    }
}
