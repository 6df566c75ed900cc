//! `Hub`: copies every packet to all outputs but its own.

use linerate_graph::{Class, Context, Copies, Element};
use linerate_memory::Frame;

use super::{FAMILY, send_copies};

pub(super) const CLASS: Class = Class {
    name: "Hub",
    family: FAMILY,
    summary: "sends a copy of every packet to each output but that of its input's number",
    description: "As the ports of an Ethernet hub do, whatever the packets are. The copies share \
        their bytes until one is written to.",
    ports: "-/=",
    processing: "h/h",
    flow: "#/[^#]",
    cost: "An atomic increment per packet and output but the first.",
    example: "h :: Hub -> Discard; InfiniteSource(LIMIT 10, STOP true) -> h; \
        Idle -> [1] h [1] -> Discard;",
    copies: Copies::Shared,
    make: |make| Box::new(Hub { ports: make.outputs() }),
    ..Class::here()
};

struct Hub {
    ports: usize,
}

impl Element for Hub {
    fn push(&mut self, cx: &mut Context, port: usize, frame: &mut Frame) {
        let others = (0..self.ports).filter(|output| *output != port);
        let Some(last) = others.clone().next_back() else { return cx.discard(frame) };
        for output in others.filter(|output| *output != last) {
            send_copies(cx, frame, output);
        }
        cx.out.emit_frame(last, frame);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    #[test]
    fn all_get_a_copy_but_the_port_it_came_from() {
        for frame_limit in [1, 256] {
            let mut run = Run::new(
                "h :: Hub -> a :: Counter -> Discard; h [1] -> b :: Counter -> Discard;
                 h [2] -> c :: Counter -> Discard;
                 InfiniteSource(DATA abc, LIMIT 300, STOP true) -> [1] h;
                 Idle -> h; Idle -> [2] h;",
            )
            .frame_limit(frame_limit);
            run.run();
            let counts = ["a", "b", "c"].map(|name| run.read(&format!("{name}.count")));
            assert_eq!(counts, ["300", "0", "300"]);
        }
    }

    #[test]
    fn a_hub_of_one_port_sends_nothing() {
        let mut run =
            Run::new("InfiniteSource(LIMIT 5, STOP true) -> Hub -> c :: Counter -> Discard");
        run.run();
        assert_eq!(run.read("c.count"), "0");
    }
}
