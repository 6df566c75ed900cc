//! Positions of the elements of a graph in a picture.
//!
//! The layered drawing of Sugiyama, Tagawa and Toda (1981): circles are broken, elements get a
//! layer each by the longest way to them, connections over several layers get a bend in each, the
//! order in a layer follows that of the neighbours, and then everything moves sideways towards its
//! neighbours as far as there is room.

use super::Graph;

/// Space between two elements of a layer, and between a bend and its
/// neighbours.
const GAP: f64 = 24.0;
/// Rounds of ordering and of moving.
const ROUNDS: usize = 24;

/// A place in the picture: an element, or a bend of a connection.
#[derive(Debug, Clone)]
struct Item {
    layer: usize,
    width: f64,
    /// Its middle.
    x: f64,
    above: Vec<Link>,
    below: Vec<Link>,
}

/// A neighbour in the next layer: which, where on it and where on the item
/// itself the line ends, from the middle.
#[derive(Debug, Clone, Copy)]
struct Link {
    item: usize,
    there: f64,
    here: f64,
}

/// The result.
#[derive(Debug, Default)]
pub(super) struct Layout {
    /// Middle and layer of each element.
    pub(super) nodes: Vec<(f64, usize)>,
    /// Bends of each connection, from its output to its input.
    pub(super) bends: Vec<Vec<(f64, usize)>>,
    pub(super) layers: usize,
    pub(super) width: f64,
}

/// Places elements of these widths; `port` tells how far from an element's
/// middle one of `count` ports is.
pub(super) fn layout(
    graph: &Graph,
    widths: &[f64],
    port: impl Fn(usize, usize, usize) -> f64,
) -> Layout {
    if graph.nodes.is_empty() {
        return Layout::default();
    }
    let Walk { order, sorted, back } = walk(graph);
    let layers = layers(graph, &sorted, &back);
    let item = |layer, width| Item { layer, width, x: 0.0, above: Vec::new(), below: Vec::new() };
    let mut items: Vec<Item> =
        layers.iter().zip(widths).map(|(layer, width)| item(*layer, *width)).collect();
    let mut chains = Vec::new();
    for (edge, back) in graph.edges.iter().zip(&back) {
        let ((a, output), (b, input)) = (edge.from, edge.to);
        let mut upper = (a, port(a, output, graph.nodes[a].outputs.len()));
        let mut lower = (b, port(b, input, graph.nodes[b].inputs.len()));
        if *back {
            std::mem::swap(&mut upper, &mut lower);
        }
        let mut chain = Vec::new();
        let mut last = upper;
        for layer in items[upper.0].layer + 1..items[lower.0].layer {
            items.push(item(layer, 0.0));
            let bend = (items.len() - 1, 0.0);
            link(&mut items, last, bend);
            chain.push(bend.0);
            last = bend;
        }
        if upper.0 != lower.0 {
            link(&mut items, last, lower);
        }
        if *back {
            chain.reverse();
        }
        chains.push(chain);
    }
    let count = 1 + items.iter().map(|item| item.layer).max().unwrap_or(0);
    let mut rows: Vec<Vec<usize>> = vec![Vec::new(); count];
    // In the order of a walk through the graph, so that connected elements are together from the
    // start.
    let bends = layers.len()..items.len();
    for at in order.into_iter().chain(bends) {
        rows[items[at].layer].push(at);
    }
    sort(&mut items, &mut rows);
    spread(&mut items, &rows);
    let place = |at: usize| (items[at].x, items[at].layer);
    Layout {
        nodes: (0..layers.len()).map(place).collect(),
        bends: chains.into_iter().map(|chain| chain.into_iter().map(place).collect()).collect(),
        layers: count,
        width: items.iter().map(|item| item.x + item.width / 2.0).fold(0.0, f64::max),
    }
}

fn link(items: &mut [Item], upper: (usize, f64), lower: (usize, f64)) {
    items[upper.0].below.push(Link { item: lower.0, there: lower.1, here: upper.1 });
    items[lower.0].above.push(Link { item: upper.0, there: upper.1, here: lower.1 });
}

/// A way through the graph.
struct Walk {
    /// All elements, those that belong together together.
    order: Vec<usize>,
    /// All elements so that every connection that is not turned round leads
    /// forward.
    sorted: Vec<usize>,
    /// The connections that are turned round.
    back: Vec<bool>,
}

/// Goes through the graph depth first, from the sources and then from the elements they do not
/// reach. Without recursion: a chain may be long.
fn walk(graph: &Graph) -> Walk {
    let mut leaving = vec![Vec::new(); graph.nodes.len()];
    for (number, edge) in graph.edges.iter().enumerate() {
        leaving[edge.from.0].push((number, edge.to.0));
    }
    let mut back = vec![false; graph.edges.len()];
    let mut state = vec![0u8; graph.nodes.len()];
    let mut order = Vec::new();
    let mut trees = Vec::new();
    let (sources, rest): (Vec<usize>, Vec<usize>) =
        (0..graph.nodes.len()).partition(|at| graph.nodes[*at].inputs.is_empty());
    for start in sources.into_iter().chain(rest) {
        if state[start] != 0 {
            continue;
        }
        state[start] = 1;
        // An element is done when all behind it are: the last done comes
        // first. Taken backwards, for the first output to be leftmost.
        let mut done = Vec::new();
        let mut open = vec![(start, leaving[start].len())];
        while let Some((at, left)) = open.last_mut() {
            let Some(next) = left.checked_sub(1) else {
                state[*at] = 2;
                done.push(*at);
                open.pop();
                continue;
            };
            *left = next;
            let (edge, to) = leaving[*at][next];
            match state[to] {
                0 => {
                    state[to] = 1;
                    open.push((to, leaving[to].len()));
                }
                1 => back[edge] = true,
                _ => {}
            }
        }
        done.reverse();
        order.extend(&done);
        trees.push(done);
    }
    // Elements reached first do not lead to those reached later.
    let sorted = trees.into_iter().rev().flatten().collect();
    Walk { order, sorted, back }
}

/// The length of the longest way to each element.
fn layers(graph: &Graph, order: &[usize], back: &[bool]) -> Vec<usize> {
    let mut ends = vec![Vec::new(); graph.nodes.len()];
    for (edge, back) in graph.edges.iter().zip(back) {
        let (from, to) = (edge.from.0, edge.to.0);
        if !back {
            ends[from].push(to);
        } else if from != to {
            ends[to].push(from);
        }
    }
    let mut layers = vec![0; graph.nodes.len()];
    for at in order {
        for to in &ends[*at] {
            layers[*to] = layers[*to].max(layers[*at] + 1);
        }
    }
    // A source stands right above the element it leads to.
    for at in 0..layers.len() {
        let next = ends[at].iter().map(|to| layers[*to]).min();
        if let (true, Some(next)) = (graph.nodes[at].inputs.is_empty(), next) {
            layers[at] = next - 1;
        }
    }
    layers
}

/// Orders each layer by the mean place of the neighbours, downwards and
/// upwards in turns.
fn sort(items: &mut [Item], rows: &mut [Vec<usize>]) {
    for round in 0..ROUNDS {
        let down = round % 2 == 0;
        number(items, rows);
        let sweep: Vec<usize> =
            if down { (0..rows.len()).collect() } else { (0..rows.len()).rev().collect() };
        for row in sweep {
            let mut keys: Vec<(f64, usize)> = rows[row]
                .iter()
                .map(|at| {
                    let links = if down { &items[*at].above } else { &items[*at].below };
                    // The port breaks the tie between two neighbours of one element.
                    let sum: f64 =
                        links.iter().map(|link| items[link.item].x + link.there * 1e-3).sum();
                    let key = match links.len() {
                        0 => items[*at].x,
                        count => sum / count as f64,
                    };
                    (key, *at)
                })
                .collect();
            keys.sort_by(|a, b| a.0.total_cmp(&b.0));
            rows[row] = keys.into_iter().map(|(_, at)| at).collect();
            number(items, &rows[row..=row]);
        }
    }
}

/// Places as numbers in the row.
fn number(items: &mut [Item], rows: &[Vec<usize>]) {
    for row in rows {
        for (place, at) in row.iter().enumerate() {
            items[*at].x = place as f64;
        }
    }
}

/// Moves everything sideways to where its connections become straight, as far
/// as the neighbours in the row let it.
fn spread(items: &mut [Item], rows: &[Vec<usize>]) {
    for row in rows {
        let mut x = 0.0;
        for at in row {
            let width = items[*at].width;
            items[*at].x = x + width / 2.0;
            x += width + GAP;
        }
    }
    for round in 0..ROUNDS {
        let down = round % 2 == 0;
        let sweep: Vec<usize> =
            if down { (0..rows.len()).collect() } else { (0..rows.len()).rev().collect() };
        for row in sweep {
            let wanted: Vec<f64> = rows[row]
                .iter()
                .map(|at| {
                    let item = &items[*at];
                    let links = match (down, round + 1 == ROUNDS) {
                        (_, true) => item.above.iter().chain(&item.below).copied().collect(),
                        (true, _) => item.above.clone(),
                        (false, _) => item.below.clone(),
                    };
                    let goal = |link: &Link| items[link.item].x + link.there - link.here;
                    match links.len() {
                        0 => item.x,
                        count => links.iter().map(goal).sum::<f64>() / count as f64,
                    }
                })
                .collect();
            place(items, &rows[row], &wanted);
        }
    }
    let left = items.iter().map(|item| item.x - item.width / 2.0).fold(f64::INFINITY, f64::min);
    items.iter_mut().for_each(|item| item.x -= left);
}

/// Places a row so that nothing overlaps and the sum of squared distances from
/// where they want to be is least: neighbours that would overlap become a block
/// that takes the mean (pool adjacent violators).
fn place(items: &mut [Item], row: &[usize], wanted: &[f64]) {
    struct Block {
        sum: f64,
        count: usize,
    }
    let mut offset = 0.0;
    let mut offsets = Vec::with_capacity(row.len());
    for (index, at) in row.iter().enumerate() {
        if index > 0 {
            offset += (items[row[index - 1]].width + items[*at].width) / 2.0 + GAP;
        }
        offsets.push(offset);
    }
    let mut blocks: Vec<Block> = Vec::new();
    for (wanted, offset) in wanted.iter().zip(&offsets) {
        let mut block = Block { sum: wanted - offset, count: 1 };
        while let Some(last) = blocks.last() {
            if last.sum / (last.count as f64) <= block.sum / (block.count as f64) {
                break;
            }
            block = Block { sum: block.sum + last.sum, count: block.count + last.count };
            blocks.pop();
        }
        blocks.push(block);
    }
    let bases = blocks
        .iter()
        .flat_map(|block| std::iter::repeat_n(block.sum / block.count as f64, block.count));
    for ((at, offset), base) in row.iter().zip(offsets).zip(bases) {
        items[*at].x = base + offset;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_overlaps_and_connections_lead_down() {
        let graph = super::super::tests::graph(
            "a :: InfiniteSource -> t :: Tee(4); t[0] -> Null -> Null -> d :: Discard; \
             t[1] -> Null -> d; t[2] -> d; t[3] -> e :: Discard; InfiniteSource -> e; \
             x :: Null -> y :: Null -> x",
        );
        let widths = vec![50.0; graph.nodes.len()];
        let layout = layout(&graph, &widths, |_, port, _| port as f64);
        for (a, (x, layer)) in layout.nodes.iter().enumerate() {
            for (other, other_layer) in &layout.nodes[a + 1..] {
                let apart = (x - other).abs() >= 50.0 + GAP - 1e-6;
                assert!(layer != other_layer || apart, "{:?}", layout.nodes);
            }
        }
        let at = |name: &str| graph.nodes.iter().position(|node| node.name == name).unwrap();
        for (edge, bends) in graph.edges.iter().zip(&layout.bends) {
            let (from, to) = (layout.nodes[edge.from.0].1, layout.nodes[edge.to.0].1);
            if edge.from.0 == at("y") {
                assert!(from > to);
            } else {
                assert_eq!(bends.len(), to - from - 1);
            }
        }
        assert_eq!(layout.layers, 5);
    }
}
