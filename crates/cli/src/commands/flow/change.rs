//! `linerate flow add`, `mod` and `del`.

use anyhow::Result;
use linerate_openflow::wire::{FlowModCommand, Version};

use super::{
    connection::{Connection, delete_all},
    texts::{self, Text},
};
use crate::{
    args::{FlowAdd, FlowAt, FlowChange, FlowDel, FlowTexts},
    exit::UsageError,
};

pub(super) fn add(at: &FlowAt, args: &FlowAdd) -> Result<()> {
    change(at, &args.texts, FlowModCommand::Add)
}

pub(super) fn modify(at: &FlowAt, args: &FlowChange) -> Result<()> {
    let strict = FlowModCommand::ModifyStrict;
    change(at, &args.texts, if args.strict { strict } else { FlowModCommand::Modify })
}

pub(super) fn delete(at: &FlowAt, args: &FlowDel) -> Result<()> {
    if args.all {
        let mut connection = Connection::open(at)?;
        let all = delete_all(&connection.syntax())?;
        let messages = connection.messages(vec![all])?;
        return connection.tell(&messages, |_| "deleting all flows".into());
    }
    let strict = FlowModCommand::DeleteStrict;
    change(at, &args.texts, if args.strict { strict } else { FlowModCommand::Delete })
}

fn change(at: &FlowAt, args: &FlowTexts, command: FlowModCommand) -> Result<()> {
    let texts = texts::all(&args.flows, args.file.as_deref())?;
    if texts.is_empty() && args.file.is_none() {
        let all = if command.deletes() { ", or --all" } else { "" };
        return Err(UsageError(format!("no flows: write some, or --file FILE{all}")).into());
    }
    let mut connection = Connection::open(at)?;
    let syntax = connection.syntax();
    let flows = texts::parse(&texts, |text| syntax.flow_line(text, command))?;
    if args.atomic && connection.version() == Version::V10 {
        return Err(
            UsageError("OpenFlow 1.0 does nothing at once: leave out --atomic".into()).into()
        );
    }
    let messages = connection.messages(flows)?;
    let place = |number: usize| texts.get(number).map(Text::name).unwrap_or_default();
    if args.atomic {
        connection.bundle(&messages, place)
    } else {
        connection.tell(&messages, place)
    }
}
