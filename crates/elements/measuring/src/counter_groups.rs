//! `CounterGroups`: a packet and byte counter for each value of an annotation.

use std::fmt::Write;

use linerate_graph::{
    Arg, Class, Context, Element, ElementBuilder, Handler, HandlerError, HandlerResult, Merge,
    Right, Text, parse_integer,
};
use linerate_memory::{Frame, Meta};

use super::FAMILY;

pub(super) const CLASS: Class = Class {
    name: "CounterGroups",
    reconfigured: Some(Right::Write),
    family: FAMILY,
    summary: "counts packets and bytes by paint or another annotation",
    description: "Keeps a count of packets and one of bytes for each group. The group is what `BY` \
        names: `PAINT`, the colour set with `Paint`; `PORT`, the number of the port the packet was \
        received on; `QUEUE`, the queue of that port; `VLAN`, the identifier in the VLAN \
        annotation.",
    ports: "1/1",
    args: &[Arg::optional("BY", "PAINT, PORT, QUEUE or VLAN", "PAINT", "what makes a group")],
    handlers: &[
        Handler::read("counts", "a line for each group that has packets: group, packets, bytes")
            .merged(Merge::Lines),
        Handler::count("count", "packets of the group that is the parameter, else of all")
            .with_parameter(),
        Handler::count("byte_count", "bytes of the group that is the parameter, else of all")
            .with_parameter(),
        Handler::button("reset", "sets all counts to zero"),
    ],
    annotates: true,
    cost: "Reads a packet's line of metadata and adds to its group's counts, which are in one line.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> CounterGroups(PAINT) -> Discard;",
    make: |make| Box::new(CounterGroups::new(make)),
    ..Class::here()
};

/// Property that packets of a group have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Paint,
    Port,
    Queue,
    Vlan,
}

impl By {
    fn groups(self) -> usize {
        match self {
            By::Paint => 1 << 8,
            By::Vlan => 1 << 12,
            By::Port | By::Queue => 1 << 16,
        }
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Group {
    packets: u64,
    bytes: u64,
}

struct CounterGroups {
    by: By,
    groups: Vec<Group>,
}

impl CounterGroups {
    fn new(make: &mut ElementBuilder<'_>) -> CounterGroups {
        let Text(text) = make.or("BY", Text("PAINT".into()));
        let by = match text.as_str() {
            "PAINT" => By::Paint,
            "PORT" => By::Port,
            "QUEUE" => By::Queue,
            "VLAN" => By::Vlan,
            _ => {
                make.error("BY: should be 'PAINT', 'PORT', 'QUEUE', or 'VLAN'");
                By::Paint
            }
        };
        CounterGroups { by, groups: vec![Group::default(); by.groups()] }
    }

    #[inline]
    fn count(&mut self, cx: &Context, frame: &Frame, group: impl Fn(&Meta) -> usize) {
        let arena = cx.arena();
        let groups = self.groups.as_mut_slice();
        for slot in frame.slots() {
            if let Some(counts) = groups.get_mut(group(arena.meta(slot))) {
                counts.packets += 1;
                counts.bytes += slot.len() as u64;
            }
        }
    }

    /// One group, or the sum of all.
    fn sum(&self, parameter: &str) -> Result<Group, HandlerError> {
        let groups = match parameter.trim() {
            "" => &self.groups[..],
            number => {
                let at = parse_integer(number).and_then(|number| usize::try_from(number).ok());
                let group = at.and_then(|at| self.groups.get(at));
                std::slice::from_ref(group.ok_or_else(|| HandlerError::refused("no such group"))?)
            }
        };
        Ok(Group {
            packets: groups.iter().map(|group| group.packets).sum(),
            bytes: groups.iter().map(|group| group.bytes).sum(),
        })
    }
}

impl Element for CounterGroups {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        match self.by {
            By::Paint => self.count(cx, frame, |meta| meta.paint.into()),
            By::Port => self.count(cx, frame, |meta| meta.port.into()),
            By::Queue => self.count(cx, frame, |meta| meta.queue.into()),
            By::Vlan => self.count(cx, frame, |meta| (meta.vlan & 0xfff).into()),
        }
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<CounterGroups>()
            && old.by == self.by
        {
            std::mem::swap(&mut self.groups, &mut old.groups);
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, parameter: &str) -> HandlerResult {
        match handler {
            "count" => Ok(self.sum(parameter)?.packets.to_string()),
            "byte_count" => Ok(self.sum(parameter)?.bytes.to_string()),
            "counts" => {
                let mut text = String::new();
                for (at, group) in self.groups.iter().enumerate().filter(|(_, g)| g.packets > 0) {
                    // Writing to a string cannot fail.
                    let _ = writeln!(text, "{at} {} {}", group.packets, group.bytes);
                }
                text.truncate(text.trim_end().len());
                Ok(text)
            }
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "reset" => self.groups.fill(Group::default()),
            _ => return Err(HandlerError::missing(handler)),
        }
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    #[test]
    fn every_group_has_its_counts() {
        for limit in [1, 256] {
            let mut run = Run::new(
                "InfiniteSource(LENGTH 60, LIMIT 10) -> g :: CounterGroups -> Discard;
                InfiniteSource(LENGTH 100, LIMIT 700, STOP true) -> h :: CounterGroups(VLAN)
                    -> Discard",
            )
            .frame_limit(limit);
            run.run();
            assert_eq!(run.read("g.counts"), "0 10 600");
            assert_eq!(run.read("h.counts"), "0 700 70000");
            assert_eq!(run.read("h.count"), "700");
            assert_eq!(run.read("h.byte_count"), "70000");
            run.write("h.reset", "").unwrap();
            assert_eq!(run.read("h.counts"), "");
        }
    }

    #[test]
    fn counts_stay_while_groups_are_made_by_the_same() {
        let mut run = Run::new(
            "InfiniteSource(LENGTH 60, LIMIT 10, STOP true) -> g :: CounterGroups -> Discard",
        );
        run.run();
        run.write("g.config", "BY PAINT").unwrap();
        assert_eq!(run.read("g.counts"), "0 10 600");
        run.write("g.config", "VLAN").unwrap();
        assert_eq!(run.read("g.counts"), "");
    }

    #[test]
    fn wrong_groupings_are_refused() {
        let errors = Run::errors("Idle -> CounterGroups(COLOUR) -> Discard");
        assert!(errors.contains("BY: should be 'PAINT', 'PORT', 'QUEUE', or 'VLAN'"), "{errors}");
    }
}
