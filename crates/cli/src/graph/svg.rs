//! A graph as a picture, in the manner of Click's papers: inputs above as
//! triangles, outputs below as squares, push ports filled, pull ports not.

use std::fmt::Write as _;

use linerate_graph::Processing;

use super::{
    Graph, Node,
    layout::{Layout, layout},
    shortened,
};

const MARGIN: f64 = 24.0;
const HEIGHT: f64 = 54.0;
/// From one layer to the next.
const STEP: f64 = 108.0;
/// Width of a letter: the fonts are not known here, so an upper bound for
/// ordinary text.
const LETTER: f64 = 7.4;
const SMALL_LETTER: f64 = 6.2;
/// Half the size of a port.
const PORT: f64 = 5.0;
/// Between the middles of two ports.
const PORT_STEP: f64 = 18.0;
/// Most letters of a configuration string.
const CONFIG: usize = 36;

/// Fill colours by worker; the first for one worker only.
const COLOURS: [&str; 8] =
    ["#eef3fb", "#fdf0e1", "#e9f7ea", "#fbe9ef", "#efeafb", "#e5f6f8", "#f7f5dc", "#f0f0f0"];

pub(super) fn svg(graph: &Graph) -> String {
    let widths: Vec<f64> = graph.nodes.iter().map(width).collect();
    let layout = layout(graph, &widths, |_, port, count| port_at(port, count));
    let legend = legend(graph);
    let width = (layout.width + 2.0 * MARGIN).max(520.0);
    let bottom = MARGIN + layout.layers as f64 * STEP;
    let height = bottom + 22.0 + MARGIN;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"DejaVu Sans, Verdana, sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
    );
    for (number, edge) in graph.edges.iter().enumerate() {
        let path = path(graph, &layout, number);
        let dash = match edge.processing {
            Processing::Push => "",
            Processing::Pull => " stroke-dasharray=\"5 3\"",
        };
        let _ = writeln!(
            out,
            "<path d=\"{path}\" fill=\"none\" stroke=\"#556070\" stroke-width=\"1.4\"{dash}/>"
        );
    }
    for (at, node) in graph.nodes.iter().enumerate() {
        let (x, layer) = layout.nodes[at];
        element(&mut out, node, x + MARGIN, top(layer), widths[at]);
    }
    let _ = writeln!(
        out,
        "<text x=\"{MARGIN}\" y=\"{:.0}\" font-size=\"11\" fill=\"#556070\">{}</text>",
        bottom + 12.0,
        escaped(&legend)
    );
    out + "</svg>\n"
}

fn legend(graph: &Graph) -> String {
    let mut text =
        "filled ports and full lines push, hollow ports and dashed lines pull".to_owned();
    let workers = graph.nodes.iter().flat_map(|node| &node.workers).max();
    if let Some(last) = workers.filter(|last| **last > 0) {
        let _ = write!(text, "; colours are workers 0 to {last}, a double frame is several");
    }
    text
}

fn top(layer: usize) -> f64 {
    MARGIN + layer as f64 * STEP + PORT
}

/// Distance of a port from the middle.
fn port_at(port: usize, count: usize) -> f64 {
    (port as f64 - (count as f64 - 1.0) / 2.0) * PORT_STEP
}

fn title(node: &Node) -> (String, String, String) {
    // An anonymous element is called after its class.
    let anonymous = node.name.rsplit('/').next().unwrap_or_default();
    let class = match anonymous.split_once('@') {
        Some((class, _)) if class == node.class => String::new(),
        _ => node.class.to_owned(),
    };
    (shortened(&node.name, 40), class, shortened(&node.config, CONFIG))
}

fn width(node: &Node) -> f64 {
    let (name, class, config) = title(node);
    let letters = |text: &str, letter: f64| text.chars().count() as f64 * letter;
    let second = letters(&class, SMALL_LETTER) + letters(&config, SMALL_LETTER) + 10.0;
    let text = letters(&name, LETTER + 0.8).max(second) + 20.0;
    let ports = node.inputs.len().max(node.outputs.len()) as f64 * PORT_STEP + 12.0;
    text.max(ports).max(84.0)
}

fn element(out: &mut String, node: &Node, x: f64, y: f64, width: f64) {
    let fill = match node.workers.as_slice() {
        [] => COLOURS[0],
        [first, ..] => COLOURS[first % COLOURS.len()],
    };
    let left = x - width / 2.0;
    let _ = writeln!(
        out,
        "<rect x=\"{left:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{HEIGHT}\" rx=\"4\" \
         fill=\"{fill}\" stroke=\"#2b3440\" stroke-width=\"1.2\"/>"
    );
    if node.workers.len() > 1 {
        let _ = writeln!(
            out,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"3\" \
             fill=\"none\" stroke=\"#2b3440\" stroke-width=\"0.8\"/>",
            left + 3.0,
            y + 3.0,
            width - 6.0,
            HEIGHT - 6.0
        );
    }
    let (name, class, config) = title(node);
    let second = match (class.as_str(), config.as_str()) {
        (class, "") => class.to_owned(),
        ("", config) => format!("({config})"),
        (class, config) => format!("{class}({config})"),
    };
    let first = y + if second.is_empty() { HEIGHT / 2.0 + 4.0 } else { 25.0 };
    let _ = writeln!(
        out,
        "<text x=\"{x:.1}\" y=\"{first:.1}\" text-anchor=\"middle\" font-weight=\"bold\" \
         fill=\"#101820\">{}</text>",
        escaped(&name)
    );
    if !second.is_empty() {
        let _ = writeln!(
            out,
            "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" font-size=\"10\" \
             fill=\"#3a4654\">{}</text>",
            y + 40.0,
            escaped(&second)
        );
    }
    let shade = |processing: Processing| match processing {
        Processing::Push => "#2b3440",
        Processing::Pull => "#ffffff",
    };
    for (port, processing) in node.inputs.iter().enumerate() {
        let at = x + port_at(port, node.inputs.len());
        let _ = writeln!(
            out,
            "<path d=\"M {:.1} {y:.1} h {:.1} l {:.1} {:.1} z\" fill=\"{}\" stroke=\"#2b3440\"/>",
            at - PORT,
            2.0 * PORT,
            -PORT,
            1.6 * PORT,
            shade(*processing)
        );
    }
    for (port, processing) in node.outputs.iter().enumerate() {
        let at = x + port_at(port, node.outputs.len());
        let _ = writeln!(
            out,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{PORT_SIDE}\" height=\"{PORT_SIDE}\" \
             fill=\"{}\" stroke=\"#2b3440\"/>",
            at - PORT_SIDE / 2.0,
            y + HEIGHT - PORT_SIDE,
            shade(*processing)
        );
    }
}

/// The side of an output's square.
const PORT_SIDE: f64 = 8.0;

/// A line from port to port through the connection's bends.
fn path(graph: &Graph, layout: &Layout, number: usize) -> String {
    let edge = graph.edges[number];
    let ((from, output), (to, input)) = (edge.from, edge.to);
    let x = |node: usize, offset: f64| layout.nodes[node].0 + MARGIN + offset;
    let start = (
        x(from, port_at(output, graph.nodes[from].outputs.len())),
        top(layout.nodes[from].1) + HEIGHT,
    );
    let end = (x(to, port_at(input, graph.nodes[to].inputs.len())), top(layout.nodes[to].1));
    let mut path = format!("M {:.1} {:.1}", start.0, start.1);
    // Back to an element above or to itself: round the boxes at both ends.
    let up = end.1 <= start.1;
    let side = |node: usize| x(node, width(&graph.nodes[node]) / 2.0 + 16.0);
    let mut last = start;
    if up {
        last = (side(from), start.1 - HEIGHT / 2.0);
        let below = start.1 + 24.0;
        let _ = write!(
            path,
            " C {:.1} {below:.1} {:.1} {below:.1} {:.1} {:.1}",
            start.0, last.0, last.0, last.1
        );
    }
    let mut curve = |to: (f64, f64), path: &mut String| {
        let middle = (last.1 + to.1) / 2.0;
        let _ = write!(
            path,
            " C {:.1} {middle:.1} {:.1} {middle:.1} {:.1} {:.1}",
            last.0, to.0, to.0, to.1
        );
        last = to;
    };
    for (bend, layer) in &layout.bends[number] {
        // Straight past the elements of the layer.
        let (upper, lower) = (top(*layer), top(*layer) + HEIGHT);
        let (first, second) = if up { (lower, upper) } else { (upper, lower) };
        curve((bend + MARGIN, first), &mut path);
        curve((bend + MARGIN, second), &mut path);
    }
    if up {
        let beside = (side(to), end.1 + HEIGHT / 2.0);
        curve(beside, &mut path);
        let above = end.1 - 24.0;
        let _ = write!(
            path,
            " C {:.1} {above:.1} {:.1} {above:.1} {:.1} {:.1}",
            beside.0, end.0, end.0, end.1
        );
    } else {
        curve(end, &mut path);
    }
    path
}

/// Text in XML; characters it does not allow are left out.
fn escaped(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).fold(String::new(), |mut out, c| {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
        out
    })
}
