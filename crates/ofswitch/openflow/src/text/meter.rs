//! Meters.

use super::error::{Fail, Parsed};
use super::{Syntax, TextError, number};
use crate::wire::meter::{ALL_METERS, CONTROLLER, MAX_METER, SLOW_PATH};
use crate::wire::multipart::MeterConfig;
use crate::wire::{Band, BandEffect, MeterCommand, MeterFlags, MeterMod};

const FLAGS: [(&str, MeterFlags); 4] = [
    ("kbps", MeterFlags::KBPS),
    ("pktps", MeterFlags::PACKETS),
    ("burst", MeterFlags::BURST),
    ("stats", MeterFlags::STATS),
];

const NUMBERS: [(&str, u32); 3] =
    [("all", ALL_METERS), ("controller", CONTROLLER), ("slowpath", SLOW_PATH)];

const KEYS: [&str; 10] = [
    "meter",
    "kbps",
    "pktps",
    "burst",
    "stats",
    "band",
    "type",
    "rate",
    "burst_size",
    "prec_level",
];

impl Syntax<'_> {
    /// A change of a meter: `meter=1,kbps,burst,band=type=drop,rate=1000,burst_size=100`.
    pub fn meter(&self, text: &str, command: MeterCommand) -> Result<MeterMod, TextError> {
        parse(text, command).map_err(|fail| fail.within(text))
    }

    /// A meter as a text.
    #[must_use]
    pub fn print_meter(&self, meter: &MeterConfig) -> String {
        let mut text = format!("meter={}", print_number(meter.meter));
        for (name, flag) in FLAGS {
            if meter.flags.contains(flag) {
                text += &format!(",{name}");
            }
        }
        for (nth, band) in meter.bands.iter().enumerate() {
            text += if nth == 0 { ",band=" } else { "," };
            text += &match band.effect {
                BandEffect::Drop => format!("type=drop,rate={}", band.rate),
                BandEffect::Remark(_) => format!("type=dscp_remark,rate={}", band.rate),
            };
            if band.burst != 0 {
                text += &format!(",burst_size={}", band.burst);
            }
            if let BandEffect::Remark(level) = band.effect {
                text += &format!(",prec_level={level}");
            }
        }
        text
    }
}

/// The number of a meter, or the word for it.
fn print_number(meter: u32) -> String {
    let known = NUMBERS.iter().find(|&&(_, number)| number == meter);
    known.map_or_else(|| meter.to_string(), |(name, _)| (*name).to_owned())
}

/// Numbers of a band, before all is there.
struct BandBuilder<'t> {
    at: &'t str,
    remarks: bool,
    rate: u32,
    burst: u32,
    level: Option<u8>,
}

fn parse(text: &str, command: MeterCommand) -> Parsed<'_, MeterMod> {
    let (mut meter, mut flags) = (None, MeterFlags::default());
    let mut bands: Vec<BandBuilder<'_>> = Vec::new();
    let words = text.split([',', ' ', '\t', '\n', '\r']).filter(|word| !word.is_empty());
    for word in words {
        // `band=type=drop` is two things.
        let word =
            word.strip_prefix("bands=").or_else(|| word.strip_prefix("band=")).unwrap_or(word);
        if word.is_empty() {
            continue;
        }
        if let Some(&(_, flag)) = FLAGS.iter().find(|(name, _)| *name == word) {
            flags = flags.with(flag);
            continue;
        }
        let Some((key, value)) = word.split_once('=') else {
            return Err(Fail::unknown(word, "argument of a meter", KEYS));
        };
        match key {
            "meter" => {
                let known = NUMBERS.iter().find(|(name, _)| *name == value);
                meter = Some(match known {
                    Some(&(_, number)) => number,
                    None => {
                        number::number(value, "the number of a meter", MAX_METER.into())? as u32
                    }
                });
                if meter == Some(0) {
                    return Err(Fail::new(value, "meters have numbers from 1 on"));
                }
            }
            "type" => {
                let remarks = match value {
                    "drop" => false,
                    "dscp_remark" => true,
                    _ => return Err(Fail::unknown(value, "type of band", ["drop", "dscp_remark"])),
                };
                bands.push(BandBuilder { at: word, remarks, rate: 0, burst: 0, level: None });
            }
            "rate" | "burst_size" | "prec_level" => {
                let Some(band) = bands.last_mut() else {
                    return Err(
                        Fail::new(word, "a band begins with its type").help("band=type=drop")
                    );
                };
                match key {
                    "rate" => band.rate = number::u32(value, "a rate")?,
                    "burst_size" => band.burst = number::u32(value, "a burst")?,
                    _ => band.level = Some(number::u8(value, "a level of precedence")?),
                }
            }
            _ => return Err(Fail::unknown(key, "argument of a meter", KEYS)),
        }
    }
    let all = command == MeterCommand::Delete && text.trim().is_empty();
    let meter = if all { Some(ALL_METERS) } else { meter };
    let meter = meter
        .ok_or_else(|| Fail::new(text, "the number of the meter is missing").help("meter=1"))?;
    if command == MeterCommand::Delete {
        if let Some(band) = bands.first() {
            return Err(Fail::new(band.at, "there are no bands here"));
        }
        return Ok(MeterMod { command, flags: MeterFlags::default(), meter, bands: Vec::new() });
    }
    if meter == ALL_METERS {
        return Err(Fail::new(text, "all meters can only be deleted"));
    }
    let unit = flags.0 & (MeterFlags::KBPS.0 | MeterFlags::PACKETS.0);
    if unit == 0 || unit.count_ones() > 1 {
        return Err(
            Fail::new(text, "a meter counts either kbit/s or packets").help("kbps, or pktps")
        );
    }
    if bands.is_empty() {
        return Err(Fail::new(text, "a meter has bands").help("band=type=drop,rate=1000"));
    }
    let bursts = flags.contains(MeterFlags::BURST);
    let bands = bands.into_iter().map(|band| finish(&band, bursts)).collect::<Parsed<'_, _>>()?;
    Ok(MeterMod { command, flags, meter, bands })
}

fn finish<'t>(band: &BandBuilder<'t>, bursts: bool) -> Parsed<'t, Band> {
    if band.rate == 0 {
        return Err(Fail::new(band.at, "a band has a rate").help("rate=1000"));
    }
    if bursts != (band.burst != 0) {
        let fail = Fail::new(band.at, "bands have a burst_size where the meter has \"burst\"");
        return Err(fail.help("either both, or none"));
    }
    let effect = match (band.remarks, band.level) {
        (true, Some(level)) if level != 0 => BandEffect::Remark(level),
        (true, _) => {
            return Err(Fail::new(band.at, "a band that remarks has a level").help("prec_level=1"));
        }
        (false, None | Some(0)) => BandEffect::Drop,
        (false, Some(_)) => {
            return Err(Fail::new(band.at, "only a band of type=dscp_remark has a prec_level"));
        }
    };
    Ok(Band { rate: band.rate, burst: band.burst, effect })
}
