//! What is drawn, as a reader of the file finds it.

use std::fs;

use resvg::usvg::roxmltree::Document;

use super::*;

const GIB: u64 = 1 << 30;

/// An op's name with all that XML, HTML, JSON and scripts give a meaning to.
const NASTY: &str = "grad/<Conv2D>&\"'</script>\u{1}日本é";

fn point(seconds: f64, bytes: u64) -> MemoryPoint {
    MemoryPoint { seconds, bytes, label: None }
}

fn memory(points: Vec<MemoryPoint>) -> MemoryChart {
    let series = MemorySeries { name: "without LMS".to_string(), points, peak: None };
    let panel = MemoryPanel { name: "GPU 0".to_string(), series: vec![series], ..MemoryPanel::default() };
    MemoryChart { title: "a model".to_string(), panels: vec![panel], labels: Vec::new() }
}

/// A step that rises and falls.
fn step() -> MemoryChart {
    let points: Vec<MemoryPoint> = (0..5000_u32)
        .map(|index| MemoryPoint {
            seconds: f64::from(index) * 1e-3,
            bytes: u64::from(index.min(5000 - index) + index % 7 * 40) * GIB / 100,
            label: Some(0),
        })
        .collect();
    let mut chart = memory(points);
    chart.title = NASTY.to_string();
    chart.labels = vec![OpLabel {
        op: NASTY.to_string(),
        seconds: Some(0.25),
        largest_tensors: vec![(NASTY.to_string(), 3 * GIB)],
    }];
    chart.panels[0].name = NASTY.to_string();
    chart.panels[0].budget_bytes = Some(16 * GIB);
    chart.panels[0].persistent_bytes = Some(GIB);
    chart.panels[0].series[0].peak =
        Some(MemoryPeak { seconds: 2.5, bytes: 25 * GIB, op: NASTY.to_string() });
    chart
}

fn texts(svg: &str) -> Vec<String> {
    let document = Document::parse(svg).unwrap();
    let texts = document.descendants().filter(|node| node.has_tag_name("text"));
    texts.filter_map(|node| node.text().map(|text| text.trim().to_string())).collect()
}

#[test]
fn names_are_escaped_in_svg() {
    let texts = texts(&step().svg().unwrap());
    let name = NASTY.replace('\u{1}', "\u{fffd}");
    assert!(texts.contains(&name), "{texts:?}");
    assert!(texts.iter().any(|text| text.contains(&format!("peak 25 GiB at 2.5 s in {name}"))), "{texts:?}");
    assert!(texts.contains(&"budget 16 GiB".to_string()), "{texts:?}");
    assert!(texts.contains(&"persistent 1 GiB".to_string()), "{texts:?}");
}

#[test]
fn the_same_chart_gives_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    for extension in ["svg", "png", "html"] {
        let [one, other] = ["one", "other"].map(|name| folder.path().join(name).with_extension(extension));
        step().write(&one).unwrap();
        step().write(&other).unwrap();
        assert_eq!(fs::read(one).unwrap(), fs::read(other).unwrap(), "{extension}");
    }
}

#[test]
fn a_hundred_thousand_points_make_no_large_file() {
    let mut random = fastrand::Rng::with_seed(3);
    let points = (0..100_000).map(|index| point(f64::from(index) * 1e-5, random.u64(0..100 * GIB))).collect();
    assert!(memory(points).svg().unwrap().len() < 200_000);
}

#[test]
fn hardly_anything_can_be_drawn() {
    let charts = [
        MemoryChart::default(),
        memory(Vec::new()),
        memory(vec![point(0.0, 0)]),
        memory(vec![point(0.0, 0), point(0.0, 0)]),
        memory(vec![point(0.0, 5), point(1e-300, 5)]),
        memory(vec![point(0.0, u64::MAX), point(f64::MAX, 1)]),
    ];
    for chart in charts {
        texts(&chart.svg().unwrap());
        chart.png().unwrap();
    }
}

#[test]
fn what_has_no_place_on_an_axis_is_refused() {
    for seconds in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0] {
        let error = memory(vec![point(0.0, 1), point(seconds, 1)]).svg().unwrap_err();
        assert!(matches!(error, ChartError::Value { index: 1, .. }), "{error}");
        let mut chart = memory(vec![point(0.0, 1)]);
        chart.panels[0].series[0].peak = Some(MemoryPeak { seconds, bytes: 1, op: String::new() });
        assert!(matches!(chart.svg().unwrap_err(), ChartError::Value { .. }));
    }
    let error = memory(vec![point(2.0, 1), point(1.0, 1)]).svg().unwrap_err();
    assert!(matches!(error, ChartError::Order { index: 1, .. }), "{error}");
    let error = memory(vec![MemoryPoint { label: Some(0), ..point(0.0, 1) }]).svg().unwrap_err();
    assert!(matches!(error, ChartError::Label { label: 0, labels: 0, .. }), "{error}");
}

#[test]
fn another_extension_is_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["chart.pdf", "chart", "svg", ".svg", "chart.svg.gz"] {
        let error = step().write(&folder.path().join(name)).unwrap_err();
        assert!(matches!(error, ChartError::Extension { .. }), "{error}");
        let message = error.to_string();
        assert!([".svg", ".png", ".html"].iter().all(|extension| message.contains(extension)), "{message}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    step().write(&folder.path().join("chart.SVG")).unwrap();
}

#[test]
fn a_png_has_two_pixels_for_each_of_the_drawing() {
    let chart = step();
    let png = chart.png().unwrap();
    let pixels = resvg::tiny_skia::Pixmap::decode_png(&png).unwrap();
    let svg = chart.svg().unwrap();
    let document = Document::parse(&svg).unwrap();
    let of = |name: &str| document.root_element().attribute(name).unwrap().parse::<u32>().unwrap();
    assert_eq!((pixels.width(), pixels.height()), (2 * of("width"), 2 * of("height")));
}

#[test]
fn a_png_has_text_without_any_font_installed() {
    let dark = |title: &str| {
        let chart = MemoryChart { title: title.to_string(), ..MemoryChart::default() };
        let pixels = resvg::tiny_skia::Pixmap::decode_png(&chart.png().unwrap()).unwrap();
        pixels.pixels().iter().filter(|pixel| pixel.red() < 100).count()
    };
    assert!(dark("a title × µ … é") > dark("") + 500);
}

#[test]
fn a_page_holds_what_one_can_point_at() {
    let html = step().html().unwrap();
    assert!(!html.contains("</script>\u{1}"), "a name ends the script");
    assert!(
        !html.contains("http")
            || html.matches("http").count() == html.matches("http://www.w3.org/2000/svg").count()
    );
    let (_, rest) = html.split_once("id=\"pointing\">").unwrap();
    let (json, _) = rest.split_once("</script>").unwrap();
    let pointing: serde_json::Value = serde_json::from_str(json).unwrap();
    let lines = serde_json::json!([NASTY, "runs 250 ms", format!("3 GiB {NASTY}")]);
    assert_eq!(pointing["labels"], serde_json::json!([lines]));
    let points = pointing["panels"][0]["curves"][0]["points"].as_array().unwrap();
    assert!(points.len() > 900 && points.len() < 4000, "{}", points.len());
    let highest = points.iter().map(|point| point[1].as_f64().unwrap()).fold(0.0, f64::max);
    let wanted = step().panels[0].series[0].points.iter().map(|point| point.bytes).max().unwrap();
    assert!((highest - wanted as f64 / GIB as f64).abs() < 1e-9, "{highest}");
}

fn sweep(values: &[(f64, f64)], out_of_memory_size: Option<f64>) -> SweepChart {
    let points = values.iter().map(|&(size, value)| SweepPoint { size, value }).collect();
    let series = SweepSeries { name: "with LMS".to_string(), points, out_of_memory_size };
    let panel =
        SweepPanel { name: "rate".to_string(), unit: "megapixels/s".to_string(), series: vec![series] };
    SweepChart {
        title: "a model".to_string(),
        size_name: "resolution".to_string(),
        size_unit: "pixels a side".to_string(),
        panels: vec![panel],
    }
}

#[test]
fn a_sweep_shows_each_point_and_where_memory_ran_out() {
    let values: Vec<(f64, f64)> = (1..=20).map(|number| (f64::from(number) * 475.0, 5.0)).collect();
    let svg = sweep(&values, Some(9975.0)).svg().unwrap();
    assert_eq!(svg.matches("<circle").count(), 20);
    let texts = texts(&svg);
    for text in ["with LMS: out of memory at 9975 (×)", "rate (megapixels/s)", "resolution (pixels a side)"]
    {
        assert!(texts.contains(&text.to_string()), "{texts:?}");
    }
}

#[test]
fn a_sweep_refuses_what_has_no_place() {
    for (values, size) in [
        (&[(1.0, f64::NAN)][..], None),
        (&[(-1.0, 1.0)], None),
        (&[(f64::INFINITY, 1.0)], None),
        (&[(1.0, 1.0)], Some(f64::NAN)),
    ] {
        let error = sweep(values, size).svg().unwrap_err();
        assert!(matches!(error, ChartError::Value { .. }), "{error}");
    }
    let error = sweep(&[(2.0, 1.0), (1.0, 1.0)], None).svg().unwrap_err();
    assert!(matches!(error, ChartError::Order { index: 1, .. }), "{error}");
    for values in
        [&[][..], &[(0.0, 0.0)], &[(1.0, -0.5), (2.0, 3.0)], &[(1.0, f64::MIN), (f64::MAX, f64::MAX)]]
    {
        sweep(values, Some(0.0)).png().unwrap();
    }
}

/// Twice the GPUs are as far from one to the next, wherever on the axis, and so is twice the rate.
#[test]
fn gpus_and_rates_have_logarithmic_axes() {
    let point = |gpus: u32, is_marked| ScalingPoint {
        gpus,
        rate: f64::from(gpus) * 3.0,
        efficiency: 1.0 / f64::from(gpus),
        is_marked,
    };
    let points = vec![point(1, false), point(16, true), point(256, false), point(4096, false)];
    let series = vec![ScalingSeries { name: "with LMS".to_string(), points }];
    let chart = ScalingChart {
        title: "a model".to_string(),
        rate_unit: "examples/s".to_string(),
        series,
        wanted_efficiency: Some(0.9),
    };
    let svg = chart.svg().unwrap();
    let texts = texts(&svg);
    for label in ["1", "16", "256", "4096", "16384", "16 GPUs: 48 examples/s", "90% of one GPU's rate"] {
        assert!(texts.iter().any(|text| text == label), "{label}: {texts:?}");
    }
    let document = Document::parse(&svg).unwrap();
    let dots: Vec<(i32, i32)> = document
        .descendants()
        .filter(|node| node.has_tag_name("circle") && node.attribute("r") == Some("3"))
        .map(|node| ["cx", "cy"].map(|at| node.attribute(at).unwrap().parse().unwrap()))
        .map(|[x, y]| (x, y))
        .collect();
    let of_rates = &dots[..4];
    for step in of_rates.windows(2) {
        assert!(((step[1].0 - step[0].0) - (of_rates[1].0 - of_rates[0].0)).abs() <= 1, "{dots:?}");
        assert!(((step[1].1 - step[0].1) - (of_rates[1].1 - of_rates[0].1)).abs() <= 1, "{dots:?}");
    }
    for axis in ["x", "y"] {
        assert!(chart.html().unwrap().contains(&format!("\"{axis}_is_logarithmic\":true")), "{axis}");
    }
    let mut wrong = chart.clone();
    wrong.series[0].points[1].rate = 0.0;
    assert!(wrong.svg().unwrap_err().to_string().contains("its rate is 0"));
    let mut wrong = chart;
    wrong.series[0].points[0].gpus = 0;
    assert!(wrong.svg().unwrap_err().to_string().contains("its number of GPUs is 0"));
}
