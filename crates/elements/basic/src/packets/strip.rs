//! `Strip`: removes bytes from the front.

use linerate_element_support::mac_header::Starts;
use linerate_graph::{Arguments, Class, Context, Element};
use linerate_memory::Frame;

use super::FAMILY;

pub(super) const CLASS: Class = Class {
    name: "Strip",
    family: FAMILY,
    summary: "takes bytes off the front of packets",
    description: "A packet shorter than that loses all its bytes. The bytes stay in the buffer: \
        Unstrip puts them back.",
    ports: "1/1",
    cost: "Less than a cycle per packet: only slots are changed, four at a time.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> Strip(14) -> Discard;",
    ..Class::for_element::<Strip>()
};

pub(super) const FLOW: Class = Class {
    name: "FlowStrip",
    description: "Strip by the name that FastClick's flow elements need; Click has no such class.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> FlowStrip(14) -> Discard;",
    ..CLASS
};

#[derive(Arguments)]
struct Strip {
    /// bytes to take off
    #[arg(kind = "bytes")]
    length: u32,
    #[init(Starts::of(make.plan()))]
    starts: Starts,
}

impl Element for Strip {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        self.starts.note(cx, frame);
        cx.pool.arena().strip_packets(frame, &mut cx.header_cache, self.length as usize);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    #[test]
    fn bytes_go_off_the_front() {
        for (length, left) in [(0, "61626364"), (3, "64"), (4, ""), (70_000, "")] {
            for frame_limit in [1, 256] {
                let mut run = Run::new(&format!(
                    "InfiniteSource(DATA abcd, LIMIT 3, STOP true) -> Strip({length})
                        -> c :: Collect"
                ))
                .frame_limit(frame_limit);
                run.run();
                assert_eq!(run.read("c.packets"), [left; 3].join("\n"));
            }
        }
    }

    #[test]
    fn copies_are_stripped_apart() {
        let mut run = Run::new(
            "InfiniteSource(DATA abcd, LIMIT 1, STOP true) -> t :: Tee -> Strip(1) -> a :: Collect;
             t [1] -> Strip(2) -> b :: Collect; t [2] -> c :: Collect;",
        );
        run.run();
        let packets = ["a", "b", "c"].map(|name| run.read(&format!("{name}.packets")));
        assert_eq!(packets, ["626364", "6364", "61626364"]);
    }

    /// Also with one byte more than the bytes in front of it.
    #[test]
    fn a_header_that_was_taken_off_stays_known() {
        for length in [0, 1, 2, 3, 5] {
            let mut run = Run::new(&format!(
                "Packets(000102030405) -> MarkNetwork(1) -> Strip({length}) -> StripToNetworkHeader
                    -> c :: Collect"
            ));
            run.run();
            assert_eq!(run.read("c.packets"), "0102030405", "{length}");
        }
    }

    #[test]
    fn a_length_must_be_given() {
        for (config, error) in
            [("", "LENGTH: required argument missing"), ("-1", "LENGTH: invalid number")]
        {
            let errors = Run::errors(&format!("Idle -> Strip({config}) -> Discard"));
            assert!(errors.ends_with(&format!("\n  {error}\n")), "{errors}");
        }
    }
}
