//! Stride scheduler: chooses the task that runs next.
//!
//! Every task has tickets; a task with twice the tickets of another runs twice
//! as often (Waldspurger and Weihl, 1995). Each run advances the task's pass by
//! a stride, and the smallest pass runs next. Tasks of equal pass run in the order in
//! which they became ready, however many turns each of them took at a time.

use std::collections::VecDeque;

use crate::schedule::{TICKETS_DEFAULT, TICKETS_LIMIT};

const STRIDE: u64 = 1 << 16;

/// State of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TaskState {
    /// There is none.
    Absent,
    /// In the queue, or running.
    Ready,
    /// Until something the element waits for is ready.
    Waiting,
    /// Until it is woken.
    Asleep,
}

#[derive(Debug, Clone)]
struct Task {
    state: TaskState,
    tickets: u32,
    stride: u64,
    pass: u64,
    /// When it became ready: [`Tasks::woken`] then.
    since: u64,
    /// It was scheduled while it ran.
    again: bool,
}

/// Sort key of ready tasks: the pass, and when it became ready.
pub(crate) type Turn = (u64, u64);

impl Task {
    fn place(&self) -> Turn {
        (self.pass, self.since)
    }

    /// The pass of its first turn, after the next one, that is behind another task's.
    fn pass_behind(&self, other: Turn) -> u64 {
        let turns = other.0.saturating_sub(self.pass).div_ceil(self.stride).max(1);
        let pass = self.pass + self.stride * turns;
        if (pass, self.since) < other { pass + self.stride } else { pass }
    }
}

/// The tasks of one worker, by element.
#[derive(Debug)]
pub(crate) struct Tasks {
    tasks: Vec<Task>,
    /// By pass; the running one is not in it.
    queue: VecDeque<u32>,
    /// The only one that is ready, which then is not in the queue either: most
    /// workers have one task, and it does not have to go through the queue.
    alone: Option<u32>,
    pass: u64,
    /// Number of times that tasks have become ready.
    woken: u64,
    waiting: usize,
    /// Runs of tasks that are ready again, since something was last done.
    runs_idle: usize,
}

impl Tasks {
    pub(crate) fn new(elements: usize) -> Tasks {
        let task = Task {
            state: TaskState::Absent,
            tickets: TICKETS_DEFAULT,
            stride: STRIDE / u64::from(TICKETS_DEFAULT),
            pass: 0,
            since: 0,
            again: false,
        };
        Tasks {
            tasks: vec![task; elements],
            queue: VecDeque::with_capacity(elements),
            alone: None,
            pass: 0,
            woken: 0,
            waiting: 0,
            runs_idle: 0,
        }
    }

    pub(crate) fn set_tickets(&mut self, element: usize, tickets: u32) {
        let tickets = tickets.clamp(1, TICKETS_LIMIT);
        self.tasks[element].tickets = tickets;
        self.tasks[element].stride = STRIDE / u64::from(tickets);
    }

    pub(crate) fn tickets(&self, element: usize) -> u32 {
        self.tasks[element].tickets
    }

    /// Returns true if a task is to run, now or when the event it waits for has come.
    pub(crate) fn is_scheduled(&self, element: usize) -> bool {
        matches!(self.tasks[element].state, TaskState::Ready | TaskState::Waiting)
    }

    /// Returns true if a task is to run now.
    pub(crate) fn is_ready(&self, element: usize) -> bool {
        self.tasks[element].state == TaskState::Ready
    }

    pub(crate) fn state(&self, element: usize) -> TaskState {
        self.tasks[element].state
    }

    /// Elements whose tasks wait for a file descriptor or a time.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = usize> + '_ {
        let waiting = |(_, task): &(usize, &Task)| task.state == TaskState::Waiting;
        let all = if self.waiting == 0 { &[][..] } else { &self.tasks };
        all.iter().enumerate().filter(waiting).map(|(at, _)| at)
    }

    /// Returns true if two tasks that are ready take their turns one after the other, from now on.
    pub(crate) fn are_in_step(&self, one: usize, other: usize) -> bool {
        let [one, other] = [one, other].map(|at| &self.tasks[at]);
        (one.pass, one.stride) == (other.pass, other.stride)
    }

    /// Turns that the task to run next takes before another one's, at least one.
    pub(crate) fn turns_before(&self, next: usize, other: usize) -> usize {
        let [next, other] = [next, other].map(|at| &self.tasks[at]);
        let ahead = other.pass.saturating_sub(next.pass);
        let ties = ahead.is_multiple_of(next.stride) && next.since > other.since;
        let turns = ahead.div_ceil(next.stride) + u64::from(ahead.is_multiple_of(next.stride));
        (turns - u64::from(ties)).max(1) as usize
    }

    /// The pass of the last of some turns that a task has taken.
    pub(crate) fn pass_of_turn(&self, element: usize, turns: u32) -> u64 {
        let task = &self.tasks[element];
        task.pass + task.stride * u64::from(turns.max(1) - 1)
    }

    /// Turns a task has taken when the last of them has at least that pass.
    pub(crate) fn turns_to(&self, element: usize, pass: u64) -> u32 {
        let task = &self.tasks[element];
        pass.saturating_sub(task.pass).div_ceil(task.stride) as u32 + 1
    }

    /// The next turn of a task that is ready.
    pub(crate) fn turn(&self, element: usize) -> Turn {
        self.tasks[element].place()
    }

    /// When a task became ready, as a number.
    pub(crate) fn since(&self, element: usize) -> u64 {
        self.tasks[element].since
    }

    /// Takes out another task than the next, to run it with that.
    pub(crate) fn take(&mut self, element: usize) {
        self.alone = self.alone.filter(|alone| *alone != element as u32);
        self.queue.retain(|queued| *queued != element as u32);
        self.tasks[element].again = false;
    }

    pub(crate) fn queued(&self) -> impl Iterator<Item = usize> + '_ {
        self.alone.iter().chain(&self.queue).map(|task| *task as usize)
    }

    pub(crate) fn has_waiting(&self) -> bool {
        self.waiting > 0
    }

    /// Makes a task run.
    #[inline]
    pub(crate) fn wake(&mut self, element: usize) {
        let task = &mut self.tasks[element];
        match task.state {
            TaskState::Ready => task.again = true,
            state => {
                if state == TaskState::Waiting {
                    self.waiting -= 1;
                }
                self.woken += 1;
                task.state = TaskState::Ready;
                task.pass = task.pass.max(self.pass);
                task.since = self.woken;
                self.enqueue(element as u32);
                self.runs_idle = 0;
            }
        }
    }

    /// Makes every task run that there is.
    pub(crate) fn wake_all(&mut self) {
        for element in 0..self.tasks.len() {
            if self.tasks[element].state != TaskState::Absent {
                self.wake(element);
            }
        }
    }

    /// Makes every task run that waits for something to be ready.
    pub(crate) fn wake_waiting(&mut self) {
        for element in 0..self.tasks.len() {
            if self.tasks[element].state == TaskState::Waiting {
                self.wake(element);
            }
        }
    }

    /// The next task to run.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<usize> {
        let element = match self.alone.take() {
            Some(element) => element,
            None => self.queue.pop_front()?,
        };
        let task = &mut self.tasks[element as usize];
        self.pass = task.pass;
        task.again = false;
        Some(element as usize)
    }

    /// The task that ran is done for now, and has taken some turns.
    #[inline]
    pub(crate) fn done(&mut self, element: usize, state: TaskState, turns: u32) {
        let task = &mut self.tasks[element];
        let state = if task.again { TaskState::Ready } else { state };
        task.state = state;
        // One that sleeps has taken its last turn, as if it had never been ready then.
        let turns = if state == TaskState::Ready { turns } else { turns - 1 };
        task.pass += task.stride * u64::from(turns);
        match state {
            TaskState::Ready => self.queue_again(element),
            TaskState::Waiting => self.waiting += 1,
            TaskState::Asleep | TaskState::Absent => {}
        }
    }

    /// The task that ran has taken some turns and is ready for more.
    #[inline]
    pub(crate) fn again(&mut self, element: usize, turns: u32) {
        let task = &mut self.tasks[element];
        task.state = TaskState::Ready;
        task.pass += task.stride * u64::from(turns);
        self.queue_again(element);
    }

    #[inline]
    fn queue_again(&mut self, element: usize) {
        if self.queue.is_empty() && self.alone.is_none() {
            self.alone = Some(element as u32);
        } else {
            self.enqueue(element as u32);
        }
        self.runs_idle += 1;
    }

    /// Puts the task that ran and found nothing to do behind all that are ready: turns that others
    /// took at once are no reason to look as often. Its next turn is not later then than the last
    /// of them, which may have something for it in their next turn. Where a task's turn `before` may
    /// bring a packet that it must not miss, its next turn is the one behind that.
    #[inline]
    pub(crate) fn idled(&mut self, element: usize, before: Option<Turn>) {
        let last = self.queue.back().map_or((0, 0), |last| self.tasks[*last as usize].place());
        let task = &mut self.tasks[element];
        let mut pass = last.0.max(task.pass + task.stride);
        if (pass, task.since) < last {
            pass += task.stride;
        }
        task.pass = before.map_or(pass, |before| pass.min(task.pass_behind(before)));
        let is_last = task.place() > last;
        self.done(element, TaskState::Ready, 0);
        if !is_last {
            // Others have not run when it looks again.
            self.runs_idle -= 1;
        }
    }

    /// Takes a task out, when its element stops.
    pub(crate) fn sleep(&mut self, element: usize) {
        let task = &mut self.tasks[element];
        match task.state {
            TaskState::Ready => {
                self.alone = self.alone.filter(|alone| *alone != element as u32);
                self.queue.retain(|queued| *queued != element as u32);
            }
            TaskState::Waiting => self.waiting -= 1,
            TaskState::Asleep | TaskState::Absent => {}
        }
        task.state = TaskState::Asleep;
        task.again = false;
    }

    /// Queues a task behind all that go before it, found from the back: with equal tickets that is
    /// where it is.
    fn enqueue(&mut self, element: u32) {
        if let Some(alone) = self.alone.take() {
            self.queue.push_back(alone);
        }
        let place = self.tasks[element as usize].place();
        let count = self.queue.len();
        let mut at = count;
        while at > 0 && self.tasks[self.queue[at - 1] as usize].place() > place {
            at -= 1;
        }
        if at == count {
            self.queue.push_back(element);
        } else {
            self.queue.insert(at, element);
        }
    }

    /// Told whether the task that ran did anything; `true` when every task
    /// that is still ready has run since something was last done. One that has
    /// gone to sleep says nothing about the others.
    #[inline]
    pub(crate) fn all_idle(&mut self, worked: bool) -> bool {
        if worked {
            self.runs_idle = 0;
            return false;
        }
        self.runs_idle >= self.queue.len() + usize::from(self.alone.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tickets_share_the_runs() {
        let mut tasks = Tasks::new(3);
        tasks.set_tickets(1, 2048);
        (0..3).for_each(|task| tasks.wake(task));
        let mut runs = [0u32; 3];
        for _ in 0..4000 {
            let task = tasks.next().unwrap();
            runs[task] += 1;
            tasks.done(task, TaskState::Ready, 1);
        }
        assert!(runs[0].abs_diff(1000) <= 1 && runs[1].abs_diff(2000) <= 2, "{runs:?}");
    }

    /// One that is taken out again when it has run waits for its turn once.
    #[test]
    fn a_task_that_is_taken_out_is_there_no_more() {
        let mut tasks = Tasks::new(2);
        (0..2).for_each(|task| tasks.wake(task));
        assert_eq!(tasks.next(), Some(0));
        for _ in 0..3 {
            tasks.take(1);
            assert_eq!(tasks.queued().count(), 0);
            tasks.again(1, 1);
            assert_eq!(tasks.queued().collect::<Vec<_>>(), [1]);
        }
        tasks.again(0, 1);
        assert_eq!(tasks.queued().collect::<Vec<_>>(), [0, 1]);
    }

    #[test]
    fn a_task_woken_while_it_runs_runs_again() {
        let mut tasks = Tasks::new(1);
        tasks.wake(0);
        assert_eq!(tasks.next(), Some(0));
        tasks.wake(0);
        tasks.done(0, TaskState::Asleep, 1);
        assert_eq!(tasks.next(), Some(0));
        tasks.done(0, TaskState::Asleep, 1);
        assert_eq!(tasks.next(), None);
    }

    #[test]
    fn the_only_task_can_be_put_to_sleep() {
        let mut tasks = Tasks::new(2);
        tasks.wake(1);
        assert_eq!(tasks.next(), Some(1));
        tasks.done(1, TaskState::Ready, 1);
        assert_eq!(tasks.queued().collect::<Vec<_>>(), [1]);
        tasks.sleep(1);
        assert_eq!((tasks.next(), tasks.queued().count()), (None, 0));
    }

    #[test]
    fn tasks_that_go_to_sleep_do_not_stand_for_others() {
        let mut tasks = Tasks::new(3);
        (0..3).for_each(|task| tasks.wake(task));
        for (task, state, idle) in [
            (0, TaskState::Asleep, false),
            (1, TaskState::Ready, false),
            (2, TaskState::Ready, true),
            (1, TaskState::Asleep, true),
        ] {
            assert_eq!(tasks.next(), Some(task));
            tasks.done(task, state, 1);
            assert_eq!(tasks.all_idle(false), idle, "{task}");
        }
    }

    #[test]
    fn a_task_that_found_nothing_looks_again_behind_all_or_behind_one() {
        let mut tasks = Tasks::new(3);
        (0..3).for_each(|task| tasks.wake(task));
        let queued = |tasks: &Tasks| tasks.queued().collect::<Vec<_>>();
        assert_eq!(tasks.next(), Some(0));
        tasks.again(0, 10);
        assert_eq!(tasks.next(), Some(1));
        tasks.again(1, 1);
        assert!(!tasks.all_idle(true));
        for _ in 0..9 {
            assert_eq!(tasks.next(), Some(2));
            tasks.idled(2, Some(tasks.turn(1)));
            assert_eq!(queued(&tasks), [1, 2, 0]);
            // However often: the first has not run.
            assert!(!tasks.all_idle(false));
            assert_eq!(tasks.next(), Some(1));
            tasks.again(1, 1);
            tasks.all_idle(true);
        }
        assert_eq!(tasks.next(), Some(2));
        tasks.idled(2, None);
        assert_eq!(queued(&tasks), [0, 1, 2]);
    }

    #[test]
    fn a_task_that_slept_does_not_catch_up() {
        let mut tasks = Tasks::new(2);
        tasks.wake(0);
        for _ in 0..100 {
            let task = tasks.next().unwrap();
            tasks.done(task, TaskState::Ready, 1);
        }
        tasks.wake(1);
        assert_eq!(tasks.queued().collect::<Vec<_>>(), [1, 0]);
        let mut runs = [0; 2];
        for _ in 0..10 {
            let task = tasks.next().unwrap();
            runs[task] += 1;
            tasks.done(task, TaskState::Ready, 1);
        }
        assert_eq!(runs, [5, 5]);
    }
}
