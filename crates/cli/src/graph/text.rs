//! A graph in words.

use std::fmt::Write as _;

use super::{Graph, word};

pub(super) fn text(graph: &Graph) -> String {
    let plural = |count: usize, what: &str| match count {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    };
    let mut text = format!(
        "{}, {}\n\n",
        plural(graph.nodes.len(), "element"),
        plural(graph.edges.len(), "connection")
    );
    // In the order of the elements they come from.
    let mut edges = graph.edges.iter().peekable();
    for (at, node) in graph.nodes.iter().enumerate() {
        let _ = write!(text, "{} :: {}", node.name, node.class);
        if !node.config.is_empty() {
            let _ = write!(text, "({})", node.config);
        }
        let workers: Vec<String> = node.workers.iter().map(usize::to_string).collect();
        let _ = match workers.len() {
            0 => Ok(()),
            1 => write!(text, ", worker {}", workers[0]),
            _ => write!(text, ", workers {}", workers.join(" ")),
        };
        text.push('\n');
        while let Some(edge) = edges.next_if(|edge| edge.from.0 == at) {
            let to = &graph.nodes[edge.to.0].name;
            let kind = word(edge.processing);
            let input = match edge.to.1 {
                0 => String::new(),
                port => format!("[{port}] "),
            };
            let _ = writeln!(text, "  output {}  {kind} -> {input}{to}", edge.from.1);
        }
    }
    text
}
