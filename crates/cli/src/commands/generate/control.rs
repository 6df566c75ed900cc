//! Handlers of `linerate generate` for clients of its control socket.

use std::{
    fmt::Write as _,
    sync::{Arc, Mutex, PoisonError},
};

use linerate_graph::{Class, Handler, HandlerError, HandlerResult};
use linerate_lab::{Change, GeneratorControl, Pattern, Rate, Sizes};

use super::{Figures, FrameLimits, Readers, Sources};
use crate::{
    args::Generate,
    remote::{COMMAND, CommandHandlers},
};

pub(super) const CLASS: Class = Class {
    name: "Generate",
    file: file!(),
    summary: "what `linerate generate` sends",
    handlers: &[
        Handler::value("rate", "how fast: max, 1.5Mpps, 100Mbit/s (on the wire), or 25%"),
        Handler::value("size", "frame sizes: 64, a list, a sweep 64-1518/64, or imix"),
        Handler::read("active", "whether it sends"),
        Handler::button("start", "sends again"),
        Handler::button("stop", "sends nothing until start; the global handler stop ends it"),
        Handler::read(
            "counts",
            "a line each: frames intended, offered, accepted, unsent, sent, bytes, dropped",
        ),
        Handler::read("count", "frames sent"),
        Handler::button("clear", "has counts begin at zero; table and summary go on"),
    ],
    ..COMMAND
};

/// State of a generator, and the handles to change it.
pub(super) struct GeneratorCommands {
    pattern: Pattern,
    seed: u64,
    room: FrameLimits,
    /// Handles of each worker.
    generators: Vec<GeneratorControl>,
    readers: Arc<Readers>,
    state: Mutex<State>,
}

struct State {
    sources: Sources,
    sizes: Option<Sizes>,
    /// Number of the run whose frames are sent: a sink tells them from others by it.
    run: u16,
    active: bool,
    /// Figures at the time when a client cleared them.
    cleared: Figures,
}

impl GeneratorCommands {
    /// Control of a generator that has just been made.
    pub(super) fn new(
        args: &Generate,
        sources: Sources,
        room: FrameLimits,
        run: u16,
        generators: Vec<GeneratorControl>,
        readers: Arc<Readers>,
    ) -> GeneratorCommands {
        let described = args.profile.is_none() && args.stream.pcap.is_none();
        let state = State {
            sources,
            sizes: described.then(|| args.stream.flows.size.clone()),
            run,
            active: true,
            cleared: Figures::default(),
        };
        let (pattern, seed) = (args.pattern, args.seed);
        GeneratorCommands { pattern, seed, room, generators, readers, state: Mutex::new(state) }
    }

    /// Has all workers send so, from now on.
    fn steer(&self, sources: &Sources, mut more: impl FnMut(&mut Change)) {
        for generator in &self.generators {
            let schedule = sources.schedule(self.generators.len(), self.pattern, self.seed);
            let mut change = Change { schedule: Some(schedule), ..Change::default() };
            more(&mut change);
            generator.change(change);
        }
    }

    fn set_rate(&self, state: &mut State, value: &str) -> Result<(), String> {
        let rate: Rate = value.parse()?;
        let sources = state.sources.at(rate)?;
        self.steer(&sources, |_| {});
        state.sources = sources;
        Ok(())
    }

    fn set_size(&self, state: &mut State, value: &str) -> Result<(), String> {
        let sizes: Sizes = value.parse()?;
        let sources = state.sources.sized(sizes.clone())?;
        // Numbers begin anew, which a sink is not to take for frames that come again.
        let run = (state.run + 1) % 256;
        let frames = |worker| sources.frames(run, worker).map_err(|error| format!("{error:#}"));
        let mut makers = (0..self.generators.len()).map(frames).collect::<Result<Vec<_>, _>>()?;
        let longest = makers.iter().map(|frames| frames.longest()).max().unwrap_or(0);
        self.room.check(longest).map_err(|error| error.to_string())?;
        // They are taken out from the last.
        makers.reverse();
        self.steer(&sources, |change| change.frames = makers.pop());
        (state.sources, state.sizes, state.run) = (sources, Some(sizes), run);
        Ok(())
    }

    fn set_active(&self, state: &mut State, active: bool) {
        if state.active != active {
            self.steer(&state.sources, |change| change.sends = Some(active));
            state.active = active;
        }
    }
}

impl CommandHandlers for GeneratorCommands {
    fn read(&self, handler: &str) -> HandlerResult {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let figures = || {
            let Figures { progress, sent, .. } = self.readers.read();
            let before = &state.cleared.progress;
            let [intended, offered, accepted] = [
                progress.intended - before.intended,
                progress.offered - before.offered,
                progress.accepted - before.accepted,
            ];
            (intended, offered, accepted, sent - state.cleared.sent)
        };
        match handler {
            "rate" => match state.sources.asked {
                Some(rate) => Ok(rate.to_string()),
                None => Ok(format!("{}pps", state.sources.rate.unwrap_or(0.0))),
            },
            "size" => state
                .sizes
                .as_ref()
                .map(Sizes::to_string)
                .ok_or_else(|| HandlerError::refused("the frames have the sizes they have")),
            "active" => Ok(state.active.to_string()),
            "count" => Ok(figures().3.packets.to_string()),
            "counts" => {
                let (intended, offered, accepted, sent) = figures();
                let mut text = String::new();
                for (name, count) in [
                    ("intended", intended),
                    ("offered", offered),
                    ("accepted", accepted),
                    ("unsent", intended.saturating_sub(accepted)),
                    ("sent", sent.packets),
                    ("bytes", sent.bytes),
                    ("dropped", sent.dropped()),
                ] {
                    let _ = writeln!(text, "{name}\t{count}");
                }
                Ok(text)
            }
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(&self, handler: &str, value: &str) -> HandlerResult {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let value = value.trim();
        match handler {
            "rate" => self.set_rate(&mut state, value).map_err(HandlerError::Refused)?,
            "size" => self.set_size(&mut state, value).map_err(HandlerError::Refused)?,
            "start" => self.set_active(&mut state, true),
            "stop" => self.set_active(&mut state, false),
            "clear" => state.cleared = self.readers.read(),
            _ => return Err(HandlerError::missing(handler)),
        }
        Ok(String::new())
    }
}
