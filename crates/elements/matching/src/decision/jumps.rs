//! Jump threading: a branch whose outcome is known on every path to it is skipped.
//!
//! For each step a few lists of answers are kept, such that every path to the step has all the
//! answers of one of them ("dominators"). Where the answers of every list tell that of the next
//! step, the way leads past it. The result depends on the lists kept, so these are just as in
//! Click, whose program is shown: beyond four lists only their common answers are kept. In long
//! programs the oldest answers of a list are forgotten.
//!
//! The idea is that of "BPF+" (Begel and others, SIGCOMM 1999).

use super::program::{Step, To};

/// Most lists kept for a step.
const LISTS_LIMIT: usize = 4;
/// Most answers kept in a list.
const ANSWERS_LIMIT: usize = 256;

/// An answer of a step: steps with the same test count as the first of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Answer {
    step: usize,
    yes: bool,
}

impl Answer {
    fn number(self) -> i64 {
        self.step as i64 * 2 + i64::from(self.yes)
    }

    fn from_number(number: i64) -> Answer {
        Answer { step: (number / 2) as usize, yes: number % 2 == 1 }
    }
}

/// Leads all paths past steps whose answer is known on them.
pub(super) fn shorten(steps: &mut [Step]) {
    let mut threader = Threader::new(steps);
    for at in 0..threader.steps.len() {
        threader.join_facts(at);
        threader.thread_jump(at, true);
        threader.thread_jump(at, false);
    }
}

struct Threader<'s> {
    steps: &'s mut [Step],
    /// The first step with the same test.
    same: Vec<usize>,
    /// Bytes that packets have for certain when a step begins.
    lengths: Vec<usize>,
    /// The edges that lead to a step, with the step they come from itself.
    entries: Vec<Vec<Answer>>,
    /// The lists of each step.
    lists: Vec<Vec<Vec<Answer>>>,
}

impl Threader<'_> {
    fn new(steps: &mut [Step]) -> Threader<'_> {
        let count = steps.len();
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by_key(|at| (steps[*at].test, *at));
        let mut same = vec![0; count];
        let mut first = 0;
        for at in order {
            if steps[at].test != steps[first].test {
                first = at;
            }
            same[at] = first;
        }
        let mut lengths = vec![usize::MAX; count];
        let mut entries = vec![Vec::new(); count];
        if let Some(start) = lengths.first_mut() {
            *start = 0;
        }
        for (at, step) in steps.iter().enumerate() {
            for yes in [false, true] {
                let To::Step(to) = step.to(yes) else { continue };
                let tested = if yes == step.test.short { 0 } else { step.test.required() };
                lengths[to] = lengths[to].min(lengths[at].max(tested));
                entries[to].insert(0, Answer { step: at, yes });
            }
        }
        Threader { lists: Vec::with_capacity(count), steps, same, lengths, entries }
    }

    fn answer(&self, step: usize, yes: bool) -> Answer {
        Answer { step: self.same[step], yes }
    }

    /// Redirects one of the edges that leave a step.
    fn redirect(&mut self, from: Answer, to: To) {
        let before = self.steps[from.step].to(from.yes);
        if before == to {
            return;
        }
        if let To::Step(before) = before {
            self.entries[before].retain(|entry| *entry != from);
        }
        if let To::Step(now) = to {
            let entries = &mut self.entries[now];
            let place = entries.iter().position(|entry| *entry >= from).unwrap_or(entries.len());
            entries.insert(place, from);
        }
        *self.steps[from.step].to_mut(from.yes) = to;
    }

    /// Finds the lists of a step from those of the steps before. A step whose
    /// answer is known on all paths is passed by.
    fn join_facts(&mut self, at: usize) {
        if at == 0 {
            return self.lists.push(vec![Vec::new()]);
        }
        let mut arriving = self.arriving(at);
        if arriving.len() > LISTS_LIMIT {
            let numbers = |list: &Vec<Answer>| list.iter().map(|answer| answer.number()).collect();
            let lists: Vec<Vec<i64>> = arriving.iter().map(numbers).collect();
            let shared = common(&lists).into_iter().map(Answer::from_number).collect();
            return self.lists.push(vec![shared]);
        }
        let mine = self.same[at];
        let mut known = Vec::new();
        for list in &mut arriving {
            let answered = list.iter().rfind(|answer| answer.step == mine);
            known.push(answered.map(|answer| answer.yes));
            // Of a test answered twice only the later answer is kept.
            if let Some(last) = list.last().copied() {
                let mut place = 0;
                let end = list.len() - 1;
                list.retain(|answer| {
                    place += 1;
                    place > end || answer.step != last.step
                });
            }
            let forgotten = list.len().saturating_sub(ANSWERS_LIMIT);
            list.drain(..forgotten);
        }
        if let Some(&Some(yes)) = known.first()
            && known.iter().all(|answer| *answer == Some(yes))
        {
            let to = self.steps[at].to(yes);
            for entry in self.entries[at].clone() {
                self.redirect(entry, to);
            }
            arriving.clear();
        }
        if arriving.is_empty() {
            // No way leads here.
            for yes in [false, true] {
                self.redirect(Answer { step: at, yes }, To::Never);
            }
        }
        self.lists.push(arriving);
    }

    /// The lists of the steps before, each with the answer that leads here.
    fn arriving(&self, at: usize) -> Vec<Vec<Answer>> {
        let entries = &self.entries[at];
        let mut arriving: Vec<Vec<Answer>> = Vec::new();
        for (place, entry) in entries.iter().enumerate() {
            if place > 0 && entries[place - 1].step == entry.step {
                // Both answers lead here, so neither is known.
                if let Some(list) = arriving.last_mut() {
                    list.pop();
                }
                continue;
            }
            let last = self.answer(entry.step, entry.yes);
            let contrary = Answer { yes: !last.yes, ..last };
            for list in &self.lists[entry.step] {
                if !list.contains(&contrary) {
                    arriving.push([&list[..], &[last]].concat());
                }
            }
        }
        arriving
    }

    /// Leads one edge out of a step past the steps whose answers are known on it.
    fn thread_jump(&mut self, at: usize, yes: bool) {
        let to = self.steps[at].to(yes);
        let lists = &self.lists[at];
        if lists.is_empty() || !matches!(to, To::Step(_)) {
            return;
        }
        let last = self.answer(at, yes);
        let passed: Vec<Vec<To>> = lists.iter().map(|list| self.follow(to, list, last)).collect();
        let end = |passed: &Vec<To>| passed.last().copied().unwrap_or(to);
        let first = end(&passed[0]);
        let alike = passed.iter().all(|passed| end(passed) == first);
        let to = if passed.len() == 1 || alike && !matches!(first, To::Step(_)) {
            first
        } else {
            let numbers = |passed: &Vec<To>| passed.iter().map(|to| to.number()).collect();
            let lists: Vec<Vec<i64>> = passed.iter().map(numbers).collect();
            common(&lists).last().map_or(to, |step| To::Step(*step as usize))
        };
        self.redirect(Answer { step: at, yes }, to);
    }

    /// The steps that follow where `list` and `last` are known, up to the first
    /// whose answer is not.
    fn follow(&self, mut to: To, list: &[Answer], last: Answer) -> Vec<To> {
        let mut passed = vec![to];
        while let To::Step(next) = to {
            let then = &self.steps[next].test;
            let told = std::iter::once(&last).chain(list.iter().rev()).find_map(|answer| {
                let length = self.lengths[answer.step];
                self.steps[answer.step].test.tells(answer.yes, then, length)
            });
            let Some(yes) = told else { break };
            to = self.steps[next].to(yes);
            passed.push(to);
        }
        passed
    }
}

/// Returns the common items of all lists, as far as one pass side by side finds them, which expects
/// them in order.
fn common(lists: &[Vec<i64>]) -> Vec<i64> {
    let mut found = Vec::new();
    let mut places = vec![0; lists.len()];
    let (mut wanted, mut turn) = (-1, 0);
    loop {
        let mut agreeing = 0;
        while agreeing < lists.len() {
            let (list, place) = (&lists[turn], &mut places[turn]);
            while list.get(*place).is_some_and(|item| *item < wanted) {
                *place += 1;
            }
            match list.get(*place) {
                None => return found,
                Some(&item) if item > wanted => (wanted, agreeing) = (item, 0),
                Some(_) => {}
            }
            agreeing += 1;
            turn = (turn + 1) % lists.len();
        }
        found.push(wanted);
        wanted += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::common;

    #[test]
    fn the_common_part_of_lists_is_found() {
        assert_eq!(common(&[vec![1, 2, 5, 7], vec![2, 3, 7, 9], vec![2, 7]]), [2, 7]);
        assert!(common(&[vec![1, 2], vec![3]]).is_empty());
        assert_eq!(common(&[vec![4, 6]]), [4, 6]);
        assert_eq!(common(&[vec![3, -2], vec![3, 5, -2]]), [3]);
    }
}
