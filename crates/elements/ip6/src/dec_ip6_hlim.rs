//! `DecIP6HLIM`: one hop less to live.

use linerate_graph::{Class, Context, Element, Handler, HandlerError};
use linerate_memory::Frame;

use super::{
    FAMILY,
    header::{HOPS, LEAST, Refused, Verdict, ip_mut},
};

pub(super) const CLASS: Class = Class {
    name: "DecIP6HLIM",
    family: FAMILY,
    summary: "takes one from the hop limit",
    description: "Packets that may go no further, those with 1 or 0, leave unchanged by output 1, \
        or are dropped where there is none. The IPv6 header must be known (`CheckIP6Header`).",
    ports: "1/1-2",
    processing: "a/ah",
    handlers: &[Handler::count("drops", "packets that could go no further")],
    annotates: true,
    drops: &["no buffer", "no IPv6 header", "hop limit reached"],
    cost: "One pass over the packets' headers.",
    example: "InfiniteSource(DATA \\<60000000 0000 3b40 20010db8000000000000000000000001 \
        20010db8000000000000000000000002>, LIMIT 10, STOP true) -> CheckIP6Header -> DecIP6HLIM \
        -> Discard;",
    make: |make| Box::new(DecIp6Hlim { drops: 0, refused: Refused::new(make) }),
    ..Class::EMPTY
};

struct DecIp6Hlim {
    drops: u64,
    refused: Refused,
}

impl Element for DecIp6Hlim {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        self.drops += self.refused.sift(cx, frame, |packet| {
            let (bytes, meta) = packet.parts();
            let head = ip_mut(bytes, meta).and_then(|ip| ip.first_chunk_mut::<LEAST>());
            match head {
                None => Verdict::Lost,
                Some(head) if head[HOPS] <= 1 => Verdict::Refuse,
                Some(head) => {
                    head[HOPS] -= 1;
                    Verdict::Keep
                }
            }
        });
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> Result<String, HandlerError> {
        match handler {
            "drops" => Ok(self.drops.to_string()),
            _ => Err(HandlerError::missing(handler)),
        }
    }
}
