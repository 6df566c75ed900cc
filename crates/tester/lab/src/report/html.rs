//! The report as one HTML file that needs no network.

use std::fmt::Write as _;

use super::{
    Report,
    figure::{Figure, SeriesSource},
    plot::{GRID, INK, PlotError, SERIES, svg},
    table::{Table, is_number},
};
use crate::criteria::{Criterion, Verdict};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");
/// Colours that replace those of plots on a dark screen, in their order.
const DARK_SERIES: [&str; 8] =
    ["#5ab4f0", "#ff9152", "#3ad6a4", "#ea9ccb", "#ffc44d", "#a5dcff", "#b79bea", "#b0b0b0"];
const DARK_INK: &str = "#e4e6ea";
const DARK_GRID: &str = "#3a3f47";

/// Writes the report.
///
/// # Errors
///
/// When a figure cannot be drawn.
pub fn html(report: &Report) -> Result<String, PlotError> {
    let mut page = String::new();
    // Writing to a string cannot fail.
    let _ = write!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:\">\n\
         <title>{title}</title>\n<style>\n{STYLE}{dark}</style>\n</head>\n<body>\n\
         <header>\n<h1>{title}</h1>\n<p>{made}</p>\n",
        title = escape(&report.title),
        made = escape(&report.made),
        dark = dark_rules(),
    );
    for line in &report.summary {
        let _ = writeln!(page, "<p>{}</p>", escape(line));
    }
    page.push_str("</header>\n");
    contents(&mut page, report);
    page.push_str("<main>\n");

    let (findings, others) = report.parted();
    section(&mut page, "found", "What was found");
    for one in findings {
        figure(&mut page, one)?;
        let _ = writeln!(page, "<p class=\"numbers\">{}</p>", escape(&one.numbers()));
    }
    page.push_str("</section>\n");

    page.push_str("<section id=\"machine\">\n<details><summary>The machine</summary>\n");
    table(&mut page, &report.machine);
    page.push_str("</details>\n</section>\n");

    // Of a part the figures matter most, of all the criteria.
    if report.is_partial() {
        figures(&mut page, others)?;
        criteria(&mut page, report);
    } else {
        criteria(&mut page, report);
        figures(&mut page, others)?;
    }

    section(&mut page, "model", "The model");
    report.model.iter().for_each(|one| table(&mut page, one));
    page.push_str("</section>\n");

    section(&mut page, "published", "Published figures beside ours");
    report.published.iter().for_each(|one| table(&mut page, one));
    page.push_str("</section>\n");

    if !report.peers.is_empty() {
        section(&mut page, "peers", "Peers in the same run");
        report.peers.iter().for_each(|one| table(&mut page, one));
        page.push_str("</section>\n");
    }

    section(&mut page, "limitations", "Limitations");
    page.push_str("<ul>\n");
    for line in &report.limitations {
        let _ = writeln!(page, "<li>{}</li>", escape(line));
    }
    page.push_str("</ul>\n</section>\n");

    section(&mut page, "again", "Making this again");
    let _ = write!(page, "<pre><code>{}</code></pre>\n</section>\n", escape(&report.commands));
    let _ = write!(page, "</main>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n");
    Ok(page)
}

/// Text as the content of an element or an attribute.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// Rules that give plots other colours on a dark screen, and leave paper and
/// saved files alone.
fn dark_rules() -> String {
    let hex = |colour: plotters::style::RGBColor| {
        format!("#{:02X}{:02X}{:02X}", colour.0, colour.1, colour.2)
    };
    let mut colours = vec![(hex(INK), DARK_INK), (hex(GRID), DARK_GRID)];
    colours.extend(SERIES.iter().map(|&colour| hex(colour)).zip(DARK_SERIES));
    let mut rules = String::from("@media screen and (prefers-color-scheme: dark) {\n");
    for (light, dark) in colours {
        for property in ["fill", "stroke"] {
            let _ = writeln!(
                rules,
                "  figure svg [{property}=\"{light}\" i] {{ {property}: {dark}; }}"
            );
        }
    }
    rules.push_str("}\n");
    rules
}

fn contents(page: &mut String, report: &Report) {
    page.push_str("<nav aria-label=\"Contents\"><ul>\n");
    let mut link = |id: &str, title: &str| {
        let _ = writeln!(page, "<li><a href=\"#{id}\">{}</a></li>", escape(title));
    };
    let entries = |figures: &'_ [Figure]| -> Vec<_> {
        let figures = figures.iter();
        figures.map(|one| (format!("figure-{}", one.id), one.title.clone())).collect()
    };
    let (findings, others) = report.parted();
    entries(findings).iter().for_each(|(id, title)| link(id, title));
    link("machine", "The machine");
    let mut criteria = vec![("criteria".to_owned(), "What any machine must show".to_owned())];
    let mut figures = entries(others);
    if report.is_partial() {
        std::mem::swap(&mut criteria, &mut figures);
    }
    criteria.into_iter().chain(figures).for_each(|(id, title)| link(&id, &title));
    link("model", "The model");
    link("published", "Published figures beside ours");
    if !report.peers.is_empty() {
        link("peers", "Peers in the same run");
    }
    link("limitations", "Limitations");
    page.push_str("</ul></nav>\n");
}

fn section(page: &mut String, id: &str, title: &str) {
    let _ = writeln!(page, "<section id=\"{id}\">\n<h2>{}</h2>", escape(title));
}

fn figures(page: &mut String, figures: &[Figure]) -> Result<(), PlotError> {
    if figures.is_empty() {
        return Ok(());
    }
    section(page, "figures", "Figures");
    for one in figures {
        figure(page, one)?;
    }
    page.push_str("</section>\n");
    Ok(())
}

fn criteria(page: &mut String, report: &Report) {
    section(page, "criteria", "What any machine must show");
    let judged: Vec<&Criterion> = report.judged().collect();
    if !judged.is_empty() {
        verdicts(page, &judged);
    }
    if report.is_partial() {
        let _ = writeln!(page, "<p>{}</p>", escape(&report.not_judged()));
    }
    page.push_str("</section>\n");
}

fn verdicts(page: &mut String, criteria: &[&Criterion]) {
    page.push_str(
        "<div class=\"wide\"><table class=\"criteria\"><thead><tr><th>No.</th><th>Criterion</th>\
         <th>Verdict</th><th>Evidence</th></tr></thead>\n<tbody>\n",
    );
    for criterion in criteria {
        let (class, verdict) = match criterion.verdict {
            Verdict::Pass => ("pass", "✓ pass"),
            Verdict::Fail => ("fail", "✗ fail"),
            Verdict::CannotShow => ("none", "– cannot be shown here"),
            Verdict::NotMeasured => ("none", "– not measured"),
        };
        let mut evidence = escape(&criterion.evidence);
        if let Some(figure) = &criterion.figure {
            let _ = write!(evidence, " <a href=\"#figure-{figure}\">Figure</a>");
        }
        let _ = writeln!(
            page,
            "<tr><td class=\"number\">{}</td><td>{}</td><td class=\"{class}\">{verdict}</td>\
             <td>{evidence}</td></tr>",
            criterion.number,
            escape(&criterion.text),
        );
    }
    page.push_str("</tbody></table></div>\n");
}

fn table(page: &mut String, table: &Table) {
    let _ = writeln!(page, "<h3 id=\"table-{}\">{}</h3>", table.id, escape(&table.title));
    if !table.caption.is_empty() {
        let _ = writeln!(page, "<p>{}</p>", escape(&table.caption));
    }
    cells(page, &table.columns, &table.rows);
}

fn cells(page: &mut String, columns: &[String], rows: &[Vec<String>]) {
    page.push_str("<div class=\"wide\"><table><thead><tr>");
    for column in columns {
        let _ = write!(page, "<th>{}</th>", escape(column));
    }
    page.push_str("</tr></thead>\n<tbody>\n");
    for row in rows {
        page.push_str("<tr>");
        for cell in row {
            let class = if is_number(cell) { " class=\"number\"" } else { "" };
            let _ = write!(page, "<td{class}>{}</td>", escape(cell));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody></table></div>\n");
}

fn figure(page: &mut String, figure: &Figure) -> Result<(), PlotError> {
    let id = &figure.id;
    let drawing = svg(figure)?;
    // Named for readers who do not see it; its size is the style sheet's.
    let drawing = drawing.replacen(
        "<svg ",
        &format!("<svg role=\"img\" aria-labelledby=\"caption-{id}\" "),
        1,
    );
    let _ = write!(
        page,
        "<figure id=\"figure-{id}\" data-name=\"{id}\">\n{drawing}\n\
         <figcaption id=\"caption-{id}\"><strong>{}.</strong> {}</figcaption>\n\
         <p class=\"command\"><code>{}</code></p>\n\
         <p class=\"save\"><button type=\"button\" data-save=\"svg\">SVG</button> \
         <button type=\"button\" data-save=\"png\">PNG</button> \
         <button type=\"button\" data-save=\"csv\">CSV</button></p>\n<details><summary>Data</summary>\n",
        escape(&figure.title),
        escape(&figure.caption),
        escape(&figure.command),
    );
    let columns = ["series", &*figure.x.label, &*figure.y.label, "low", "high", "samples"];
    let columns = columns.map(str::to_owned);
    let rows = figure.series.iter().flat_map(|series| {
        series.points.iter().map(|mark| {
            let of = |value: f64| format!("{value:.6}");
            let plain = |value: f64| match value {
                _ if value.fract() == 0.0 => format!("{value}"),
                _ if value.abs() >= 0.01 => of(value).trim_end_matches('0').to_owned(),
                _ => format!("{value:.4e}"),
            };
            let (low, high, samples) = match series.kind {
                SeriesSource::Fitted | SeriesSource::Published => Default::default(),
                _ => (plain(mark.low), plain(mark.high), mark.samples.to_string()),
            };
            vec![series.name.clone(), plain(mark.x), plain(mark.y), low, high, samples]
        })
    });
    cells(page, &columns, &rows.collect::<Vec<_>>());
    let _ = write!(
        page,
        "</details>\n<script type=\"text/csv\">{}</script>\n</figure>\n",
        // Names cannot end the script: CSV lacks that text.
        figure.csv().replace("</", "< /")
    );
    Ok(())
}
