//! `IPIn` and `IPOut`: the ends of the IP layer of `FastClick`'s middleboxes.

use linerate_graph::{Arguments, Class, Context, Element, Step, Verdict, Writes};
use linerate_memory::{Frame, PacketMut};

use super::FAMILY;
use linerate_element_support::ip::{HeaderReason, fill_checksum, known};

pub(super) const IN: Class = Class {
    name: "IPIn",
    family: FAMILY,
    summary: "begins a path on which FastClick's middleboxes change IP packets",
    description: "Where packets' contents are is noted by CheckIPHeader and MarkIPHeader here, so \
        packets pass unchanged. Not in Click; in FastClick.",
    ports: "1/1",
    processing: "h/h",
    cost: "One call per frame; packets are not touched.",
    example: "FromIPSummaryDump(STOP true, FIELDS ip_src, DATA \"1.0.0.1\") -> CheckIPHeader \
        -> IPIn -> IPOut -> Discard;",
    make: |_| Box::new(IpIn),
    ..Class::here()
};

pub(super) const OUT: Class = Class {
    name: "IPOut",
    summary: "ends a path on which FastClick's middleboxes change IP packets",
    description: "Computes the checksum of the IP header anew, unless `READONLY` is true or \
        `CHECKSUM` is false. The header must be known (`CheckIPHeader`). Not in Click; in FastClick.",
    args: IpOut::ARGS,
    annotates: true,
    drops: IpOut::CLASS.drops,
    cost: "One pass over the packets' headers, five additions each.",
    make: IpOut::CLASS.make,
    ..IN
};

struct IpIn;

impl Element for IpIn {
    fn push(&mut self, _: &mut Context, _: usize, _: &mut Frame) {}
}

#[derive(Arguments)]
struct IpOut {
    /// whether packets are as they were
    #[arg(optional, default = false)]
    readonly: bool,
    /// whether to compute the checksum
    #[arg(keyword, default = true)]
    checksum: bool,
}

impl Step<Writes, HeaderReason> for IpOut {
    #[inline]
    fn step(&mut self, packet: &mut PacketMut<'_>) -> Verdict<HeaderReason> {
        if self.checksum && !self.readonly {
            fill_checksum(known(packet)?.0);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    /// Two UDP packets without data.
    const PACKETS: &str = "4500001c00010000401177ce01000001020000020001000200080000 \
        4500001c00020000401177cc01000002020000020001000200080000";

    #[test]
    fn the_checksum_is_right_behind_it() {
        for (config, right) in
            [("", true), ("false", true), ("true", false), ("CHECKSUM false", false)]
        {
            for frame_limit in [1, 7, 256] {
                let mut run = Run::new(&format!(
                    "Packets({PACKETS}) -> CheckIPHeader -> StoreData(5, x)
                        -> IPIn -> IPOut({config}) -> c :: CheckIPHeader -> a :: Collect;
                     c [1] -> b :: Collect"
                ))
                .frame_limit(frame_limit);
                run.run();
                let counts =
                    ["a", "b"].map(|at| run.read(&format!("{at}.lengths")).lines().count());
                assert_eq!(counts, if right { [2, 0] } else { [0, 2] }, "{config}");
            }
        }
    }
}
