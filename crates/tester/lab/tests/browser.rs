//! Reports as a browser shows them: headless Chromium loads the file, runs its script, and returns
//! its result.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use linerate_lab::{
    criteria::{Criterion, Verdict},
    report::{Axis, Figure, Report, Scale, Series, SeriesSource, Table, html},
};
use linerate_test_support::programs;

fn figure(id: &str, kind: SeriesSource) -> Figure {
    let line = |name: &str, kind, factor: f64| {
        let values = (0..9).map(|power| 2f64.powi(power));
        let rate = move |burst: f64| factor * 30e6 / (1.0 + 4.0 / burst);
        let twice =
            values.flat_map(move |burst| [(burst, rate(burst)), (burst, 1.1 * rate(burst))]);
        Series::grouped(name, kind, twice)
    };
    let mut series = vec![
        line("ring </script>", kind, 1.0),
        line("null", kind, 2.0),
        line("model", SeriesSource::Fitted, 1.05),
        line("published, 3.3 GHz", SeriesSource::Published, 0.7),
    ];
    series.extend((4..8).map(|index| line(&format!("line {index}"), kind, 0.1 * f64::from(index))));
    Figure {
        id: id.into(),
        title: "Throughput against burst size <all drivers>".into(),
        caption: "Made up for this test.".into(),
        command: "linerate lab run burst".into(),
        x: Axis::decimal("burst (packets)", Scale::Log2),
        y: Axis::decimal("throughput (packets/s)", Scale::Linear),
        series,
    }
}

fn report() -> Report {
    let criterion = |number, verdict| Criterion {
        number,
        text: format!("Criterion {number}"),
        verdict,
        evidence: "R² = 0.999 & more".into(),
        figure: Some("burst".into()),
    };
    let mut machine = Table::new("machine", "Description", "", &["fact", "value"]);
    machine.push(["kernel".into(), "6.18 <custom>".into()]);
    Report {
        title: "A machine & its \"figures\"".into(),
        made: "Made for a test".into(),
        summary: vec!["Nothing here was measured.".into()],
        machine: machine.clone(),
        criteria: vec![
            criterion(1, Verdict::Pass),
            criterion(2, Verdict::Fail),
            criterion(3, Verdict::CannotShow),
        ],
        model: vec![machine.clone()],
        figures: vec![
            figure("burst", SeriesSource::Measured),
            figure("stack", SeriesSource::Stacked),
        ],
        published: vec![machine.clone()],
        peers: vec![machine],
        limitations: vec!["None of it is true.".into()],
        commands: "linerate lab run all".into(),
    }
}

/// A folder of this test, removed with its content.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("linerate-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs Chromium on a page, and returns its standard output.
fn chromium(folder: &Path, page: &Path, options: &[&str]) -> String {
    let mut command = Command::new(programs::require("chromium"));
    command
        // Root may not use the browser's own sandbox; the page is ours.
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
        .args(["--no-first-run", "--window-size=1000,1400"])
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .args(options)
        .arg(format!("file://{}", page.display()));
    let output = command.output().expect("Chromium runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Loads a page with a script behind it, whose result is the body's attribute
/// `data-result`. Errors of any script are a result too.
fn ask(folder: &Path, page: &str, script: &str, options: &[&str]) -> String {
    let script = format!(
        "<script>window.addEventListener('error', (e) => document.body.dataset.result = e.message);\
         document.addEventListener('securitypolicyviolation', (e) =>\
         document.body.dataset.result = 'refused: ' + e.blockedURI);\
         (async () => {{ const answer = await (async () => {{ {script} }})();\
         document.body.dataset.result ??= answer; }})()</script></body>"
    );
    let file = folder.join("page.html");
    fs::write(&file, page.replace("</body>", &script)).unwrap();
    // The browser's own time may run out while pictures are decoded in real time.
    for budget in [5_000, 20_000, 80_000, 320_000] {
        let budget = format!("--virtual-time-budget={budget}");
        let more = ["--dump-dom", &budget];
        let options: Vec<&str> = options.iter().copied().chain(more).collect();
        let shown = chromium(folder, &file, &options);
        if let Some((_, rest)) = shown.split_once("data-result=\"") {
            return rest.split_once('"').unwrap().0.to_owned();
        }
    }
    panic!("the script had no result");
}

#[test]
#[ignore = "needs chromium"]
fn a_browser_shows_everything_and_saves_figures() {
    let folder = Folder::new("browser");
    let page = html(&report()).unwrap();
    for address in ["http://", "https://", "src=", "@import", "url("] {
        let namespace = "http://www.w3.org/2000/svg";
        assert!(!page.replace(namespace, "").contains(address), "{address}");
    }

    let counts = ask(
        &folder.0,
        &page,
        "const count = (what) => document.querySelectorAll(what).length;\
         const inside = [...document.querySelectorAll('figure svg')].every((svg) => {\
           const frame = svg.getBoundingClientRect();\
           return [...svg.querySelectorAll('text')].every((text) => {\
             const box = text.getBoundingClientRect();\
             return box.left >= frame.left - 1 && box.right <= frame.right + 1; }); });\
         const broken = [...document.querySelectorAll('a')].filter((a) =>\
           !document.getElementById(a.getAttribute('href').slice(1))).length;\
         const over = document.documentElement.scrollWidth > window.innerWidth;\
         return [count('figure svg'), count('.criteria tbody tr'), count('figure details tr'),\
           document.title, inside, broken, over].join('; ')",
        &[],
    );
    // Each figure: a head, and nine marks of eight series.
    assert_eq!(counts, "2; 3; 146; A machine &amp; its &quot;figures&quot;; true; 0; false");

    let saved = ask(
        &folder.0,
        &page,
        "const figure = document.querySelector('figure');\
         const address = await picture(figure);\
         const image = new Image(); image.src = address; await image.decode();\
         const canvas = document.createElement('canvas');\
         canvas.width = image.width; canvas.height = image.height;\
         const context = canvas.getContext('2d'); context.drawImage(image, 0, 0);\
         const bytes = context.getImageData(0, 0, image.width, image.height).data;\
         const colours = new Set();\
         for (let at = 0; at < bytes.length; at += 4)\
           colours.add(bytes[at] * 65536 + bytes[at + 1] * 256 + bytes[at + 2]);\
         const names = []; HTMLAnchorElement.prototype.click = function () {\
           names.push(this.download + ' ' + this.href.split(/[;:]/)[0]); };\
         for (const button of figure.querySelectorAll('button')) button.click();\
         await new Promise((done) => setTimeout(done, 500));\
         return [address.slice(0, 22), image.width, colours.size > 20,\
           colours.has(0xffffff) && colours.has(0x0072b2), names.sort().join(', ')].join('; ')",
        &[],
    );
    assert_eq!(
        saved,
        "data:image/png;base64,; 1440; true; true; burst.csv blob, burst.png data, burst.svg blob"
    );
}

/// Text and lines stand out from the page, on a light screen and on a dark one.
#[test]
#[ignore = "needs chromium"]
fn figures_are_readable_in_the_dark() {
    let folder = Folder::new("dark");
    let page = html(&report()).unwrap();
    // Relative luminance and contrast as WCAG 2 defines them.
    let script = "const light = (colour) => { const [r, g, b] = colour.match(/[\\d.]+/g)\
           .map((part) => part / 255).map((c) => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);\
           return 0.2126 * r + 0.7152 * g + 0.0722 * b; };\
         const paper = light(getComputedStyle(document.body).backgroundColor);\
         const contrast = (colour) => { const one = light(colour);\
           return (Math.max(one, paper) + 0.05) / (Math.min(one, paper) + 0.05); };\
         const least = (what, property) => Math.min(...[...document.querySelectorAll(what)]\
           .map((one) => getComputedStyle(one)[property]).filter((c) => c !== 'none').map(contrast));\
         return [paper < 0.5, least('figure svg text', 'fill') >= 7,\
           least('td, th, p, figcaption', 'color') >= 4.5,\
           least('figure svg polyline[stroke-width=\"2\"]', 'stroke') >= 3].join('; ')";
    let light = ask(&folder.0, &page, script, &[]);
    assert_eq!(light, "false; true; true; true");
    let dark = ask(&folder.0, &page, script, &["--blink-settings=preferredColorScheme=0"]);
    assert_eq!(dark, "true; true; true; true");
}

/// On paper everything is light again, and as wide as the paper.
#[test]
#[ignore = "needs chromium"]
fn a_report_can_be_printed() {
    let folder = Folder::new("print");
    let file = folder.0.join("page.html");
    fs::write(&file, html(&report()).unwrap()).unwrap();
    let paper = folder.0.join("page.pdf");
    chromium(
        &folder.0,
        &file,
        &[
            "--blink-settings=preferredColorScheme=0",
            "--no-pdf-header-footer",
            "--virtual-time-budget=5000",
            &format!("--print-to-pdf={}", paper.display()),
        ],
    );
    let bytes = fs::read(&paper).unwrap();
    assert!(bytes.starts_with(b"%PDF-") && bytes.len() > 10_000, "{} bytes", bytes.len());
}
