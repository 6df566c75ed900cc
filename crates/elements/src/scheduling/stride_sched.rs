//! `StrideSched`: inputs served in proportion to tickets.
//!
//! Stride scheduling (Waldspurger and Weihl, 1995): the input with the smallest
//! pass is next, and its pass grows by 65536 divided by its tickets. Among
//! equals the one that has not been served last goes first, as Click's list
//! has it.

use linerate_graph::{
    Access, Arg, Class, Context, Element, Handler, HandlerError, Make, parse_integer,
};
use linerate_memory::Frame;

use super::{FAMILY, record_argument};

const STRIDE: u32 = 1 << 16;
const TICKETS_LIMIT: i128 = 1 << 15;

pub(super) const CLASS: Class = Class {
    name: "StrideSched",
    family: FAMILY,
    summary: "pulls from its inputs in proportion to tickets",
    description: "An input with twice the tickets of another is served twice as often, one with \
        none never. Inputs without packets are passed over and do not catch up. The handlers \
        `tickets0`, `tickets1`, ... read and set the tickets of an input.",
    ports: "1-/1",
    processing: "l/l",
    args: &[Arg::rest("TICKETS", "tickets", "tickets of each input, at most 32768")],
    cost: "Every input is asked once per frame for as many packets as it will give, and again \
        only when another had less; choosing among the inputs is done twice per packet.",
    example: "InfiniteSource(LIMIT 5) -> a :: Queue; InfiniteSource(LIMIT 5) -> b :: Queue; \
        a, b => StrideSched(1, 2) -> Unqueue -> Counter(COUNT_CALL 10 stop) -> Discard;",
    make: |make| Box::new(Stride::new(make)),
    ..Class::EMPTY
};

/// What can be done with `tickets0` and its like.
const TICKETS: Handler = Handler::value("tickets", "tickets of an input");

#[derive(Clone)]
struct Turns {
    tickets: Vec<u32>,
    passes: Vec<u32>,
    /// Inputs with tickets, smallest pass first.
    list: Vec<usize>,
    /// Inputs taken off the list.
    stridden: Vec<usize>,
}

impl Turns {
    fn new(tickets: Vec<u32>) -> Turns {
        let passes = tickets.iter().map(|tickets| stride(*tickets)).collect();
        let list = Vec::with_capacity(tickets.len());
        let stridden = Vec::with_capacity(tickets.len());
        let mut turns = Turns { tickets, passes, list, stridden };
        for input in (0..turns.tickets.len()).rev() {
            if turns.tickets[input] > 0 {
                turns.insert(input);
            }
        }
        turns
    }

    /// Before those with the same pass. Passes wrap around.
    fn insert(&mut self, input: usize) {
        let pass = self.passes[input];
        let later = |other: &usize| pass.wrapping_sub(self.passes[*other]) as i32 > 0;
        let at = self.list.iter().take_while(|other| later(other)).count();
        self.list.insert(at, input);
    }

    /// The next input for which `has` says that it has a packet.
    fn next(&mut self, mut has: impl FnMut(usize) -> bool) -> Option<usize> {
        let mut found = None;
        let mut count = 0;
        for &input in &self.list {
            count += 1;
            self.passes[input] = self.passes[input].wrapping_add(stride(self.tickets[input]));
            if has(input) {
                found = Some(input);
                break;
            }
        }
        let mut stridden = std::mem::take(&mut self.stridden);
        stridden.extend(self.list.drain(..count));
        stridden.drain(..).for_each(|input| self.insert(input));
        self.stridden = stridden;
        found
    }

    fn set(&mut self, input: usize, tickets: u32) {
        let before = std::mem::replace(&mut self.tickets[input], tickets);
        if tickets == 0 {
            self.list.retain(|other| *other != input);
        } else if before == 0 {
            let first = self.list.first().map(|first| self.passes[*first]);
            self.passes[input] = first.map_or(0, |pass| pass.wrapping_add(stride(tickets)));
            self.insert(input);
        }
    }

    fn copy_from(&mut self, other: &Turns) {
        self.passes.clone_from(&other.passes);
        self.list.clone_from(&other.list);
        self.tickets.clone_from(&other.tickets);
    }
}

fn stride(tickets: u32) -> u32 {
    STRIDE.checked_div(tickets).unwrap_or(0)
}

struct Stride {
    turns: Turns,
    /// For trying out what is next.
    trial: Turns,
    /// Packets of each input, last first, empty between calls.
    shares: Vec<Frame>,
    /// Packets each input is to give.
    wanted: Vec<usize>,
    /// Inputs that have no more, in the call that goes on.
    dry: Vec<bool>,
}

impl Stride {
    fn new(make: &mut Make<'_>) -> Stride {
        let inputs = make.inputs();
        let arguments = make.rest();
        if arguments.len() != inputs {
            make.error(format!("need {inputs} arguments, one per input port"));
        }
        let mut tickets = vec![1; inputs];
        for (at, argument) in arguments.iter().enumerate().take(inputs) {
            let number = parse_integer(argument).filter(|number| i32::try_from(*number).is_ok());
            match number {
                None => {
                    make.error(format!("argument {at} should be number of tickets (integer)"));
                }
                Some(number) if number < 0 => {
                    make.error(format!("argument {at} (number of tickets) must be >= 0"));
                }
                Some(number) => {
                    if number > TICKETS_LIMIT {
                        make.warn(format!("input {at}'s tickets reduced to {TICKETS_LIMIT}"));
                    }
                    tickets[at] = number.min(TICKETS_LIMIT) as u32;
                }
            }
        }
        let turns = Turns::new(tickets);
        let limit = make.world.frame_limit;
        Stride {
            trial: turns.clone(),
            turns,
            shares: (0..inputs).map(|_| Frame::new(limit)).collect(),
            wanted: vec![0; inputs],
            dry: vec![false; inputs],
        }
    }

    /// Asks inputs for what the next `count` packets take of each when all
    /// but the dry ones have enough.
    fn ask(&mut self, cx: &mut Context, count: usize) {
        self.wanted.fill(0);
        self.trial.copy_from(&self.turns);
        for _ in 0..count {
            let Some(input) = self.trial.next(|input| !self.dry[input]) else { break };
            self.wanted[input] += 1;
        }
        for (input, share) in self.shares.iter_mut().enumerate() {
            let missing = self.wanted[input].saturating_sub(share.len());
            if missing > 0 {
                share.slots_mut().reverse();
                self.dry[input] = cx.pull(input, missing, share) < missing;
                share.slots_mut().reverse();
            }
        }
    }

    /// Takes packets in turn until an input that has more must be asked.
    fn merge(&mut self, count: usize, frame: &mut Frame) {
        while frame.len() < count {
            let Stride { turns, trial, shares, dry, .. } = self;
            trial.copy_from(turns);
            let mut ask = false;
            let next = trial.next(|input| {
                let has = !shares[input].is_empty();
                ask |= !has && !dry[input];
                has || ask
            });
            let Some(slot) = next.filter(|_| !ask).and_then(|input| shares[input].pop()) else {
                return;
            };
            std::mem::swap(turns, trial);
            let pushed = frame.push(slot);
            debug_assert!(pushed.is_ok(), "no more than were asked for");
        }
    }

    fn input_of(&self, handler: &str) -> Option<usize> {
        let input = handler.strip_prefix("tickets")?.parse().ok()?;
        (input < self.shares.len()).then_some(input)
    }
}

impl Element for Stride {
    fn pull(&mut self, cx: &mut Context, _: usize, count: usize, frame: &mut Frame) {
        self.dry.fill(false);
        loop {
            self.ask(cx, count - frame.len());
            self.merge(count, frame);
            let listed = &self.turns.list;
            if frame.len() == count || listed.iter().all(|input| self.dry[*input]) {
                break;
            }
        }
        // Nothing to be had: every input has had its turn all the same.
        if frame.is_empty() {
            self.turns.next(|_| false);
        }
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Stride>()
            && old.turns.tickets == self.turns.tickets
        {
            self.turns.copy_from(&old.turns);
        }
    }

    fn close(&mut self, cx: &mut Context) {
        self.shares.iter_mut().for_each(|share| cx.discard(share));
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> Result<String, HandlerError> {
        let input = self.input_of(handler).ok_or_else(|| HandlerError::missing(handler))?;
        Ok(self.turns.tickets[input].to_string())
    }

    fn write(
        &mut self,
        cx: &mut Context,
        handler: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        let input = self.input_of(handler).ok_or_else(|| HandlerError::missing(handler))?;
        let tickets = match parse_integer(value) {
            None => return Err(HandlerError::refused("tickets value must be integer")),
            Some(tickets) if tickets < 0 => {
                return Err(HandlerError::refused("number of tickets must be >= 0"));
            }
            Some(tickets) => tickets.min(TICKETS_LIMIT) as u32,
        };
        self.turns.set(input, tickets);
        record_argument(cx, input, "", &tickets.to_string());
        cx.notify();
        Ok(String::new())
    }

    fn handler(&self, name: &str) -> Option<&'static Handler> {
        debug_assert!(TICKETS.access == Access::ReadWrite);
        self.input_of(name).map(|_| &TICKETS)
    }

    fn handler_names(&self) -> Vec<String> {
        (0..self.shares.len()).map(|input| format!("tickets{input}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    fn order(tickets: &str, frame_limit: usize) -> String {
        let mut run = Run::new(&format!(
            "InfiniteSource(\\<0a>, LIMIT 30) -> a :: Queue; \
                InfiniteSource(\\<0b>, LIMIT 5) -> b :: Queue; \
                InfiniteSource(\\<0c>, LIMIT 40) -> c :: Queue; \
                a, b, c => StrideSched({tickets}) -> u :: Unqueue(ACTIVE false) -> out :: Collect; \
                TimedSource(1ms, LIMIT 1) -> Counter(COUNT_CALL 1 u.active true) -> Discard; \
                TimedSource(1, LIMIT 0, STOP true) -> Discard"
        ))
        .frame_limit(frame_limit);
        run.run();
        run.read("out.packets").lines().map(|line| &line[1..]).collect()
    }

    #[test]
    fn tickets_share_the_packets() {
        let batch = order("1, 2, 4", 256);
        assert_eq!(batch.len(), 75);
        let share = |of: char| batch[..14].chars().filter(|c| *c == of).count();
        assert_eq!((share('a'), share('b'), share('c')), (2, 4, 8), "{batch}");
        assert!(order("1, 0, 1", 256).chars().all(|c| c != 'b'));
    }

    #[test]
    fn the_order_is_that_of_click() {
        for (tickets, expected) in [
            (
                "1, 2, 4",
                "ccbccbaccbccbaccbccaccccaccccaccccaccccaccccaccccaccccaaaaaaaaaaaaaaaaaaaaa",
            ),
            (
                "3, 5, 7",
                "cbcabccbacbccbaccaccacccaccaccacccaccaccacccaccaccacccaccaccacaaaaaaaaaaaaa",
            ),
        ] {
            for frame_limit in [1, 7, 256] {
                assert_eq!(order(tickets, frame_limit), expected, "{tickets} by {frame_limit}");
            }
        }
    }

    #[test]
    fn handlers() {
        let mut run = Run::new("Idle -> s :: StrideSched(3) -> Discard");
        assert_eq!(run.read("s.tickets0"), "3");
        run.write("s.tickets0", "40000").unwrap();
        assert_eq!(run.read("s.tickets0"), "32768");
        assert_eq!(run.read("s.config"), "32768");
        let errors = Run::errors("Idle -> StrideSched(1, 2) -> Discard");
        assert!(errors.contains("need 1 arguments, one per input port"), "{errors}");
    }
}
