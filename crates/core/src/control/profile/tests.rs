//! Tests of the control law against the model, and of its individual rules.

use proptest::prelude::*;

use super::model::{INTERVAL, LOADS, Noise, PEAK, PROCESSORS, Traffic, profile, settings};
use super::trial::{Progress, Trial};
use super::*;

/// Traffic that no profile has.
const UNSEEN: Traffic =
    Traffic { rate: 25_000.0, bytes: 2_000.0, typical: 2_000.0, service: 9_000.0, crowding: 0.0 };

/// The control law, with traffic from the model.
struct Run {
    guide: Guide,
    noise: Noise,
    now: u64,
}

impl Run {
    fn new(profile: TrafficProfile) -> Self {
        Self { guide: Guide::new(profile, 1, PEAK), noise: Noise(9), now: 0 }
    }

    /// Runs for some seconds. Returns the mean cost in that time, and the decisions that changed something.
    fn run(&mut self, traffic: &Traffic, seconds: u64) -> (f64, Vec<GuideStep>) {
        let (mut costs, mut steps) = (Vec::new(), Vec::new());
        for _ in 0..seconds * 1_000_000_000 / INTERVAL {
            let before = self.guide.setting();
            costs.push(traffic.measured(before).cost_ns);
            let sample = self.noise.sample(traffic, before);
            self.now += INTERVAL;
            let step = self.guide.sampled(self.now, &sample);
            assert_eq!(step.setting, self.guide.setting());
            if step.setting != before || step.reason != GuideReason::Steady {
                steps.push(step);
            }
        }
        (costs.iter().sum::<f64>() / costs.len() as f64, steps)
    }
}

#[test]
fn three_loads_are_told_apart_and_get_nearly_the_best_setting() {
    let mut run = Run::new(profile(&LOADS));
    for (index, load) in LOADS.iter().enumerate().chain(LOADS.iter().enumerate()) {
        let (_, steps) = run.run(load, 2);
        let recognised = steps.iter().find(|step| step.reason == GuideReason::Recognised);
        assert_eq!(recognised.expect("the mix is recognised").mix.unwrap().0, index);
        let chosen_ratio = load.measured(run.guide.setting()).cost_ns / load.least_cost();
        assert!(chosen_ratio <= 1.05, "{load:?}: {chosen_ratio} of the best");
        let (mean, _) = run.run(load, 60);
        let mean = mean / load.least_cost();
        assert!(mean <= 1.10, "{load:?}: {mean} of the best, with comparisons");
    }
}

/// The mix of a load, with a measured point that looks very good.
fn planted(load: &Traffic, setting: Setting) -> TrafficProfile {
    let mut mix = load.mix();
    let Measured { cost_ns, p99_ns } = mix.peak.measured;
    let promised = Measured { cost_ns: cost_ns / 2.0, p99_ns: p99_ns / 2.0 };
    mix.points.push(Point { measured: promised, ..load.point(setting) });
    TrafficProfile { mixes: vec![mix] }
}

#[test]
fn a_planted_bad_setting_is_undone_within_fifteen_seconds() {
    let expensive = Setting { active: 1, spin_ns: 50_000, coalesce_ns: 0 };
    let late = Setting { active: 8, spin_ns: 0, coalesce_ns: 10_000_000 };
    for (load, setting) in [(LOADS[2], expensive), (LOADS[0], late), (LOADS[0], expensive)] {
        let mut run = Run::new(planted(&load, setting));
        let (_, steps) = run.run(&load, 2);
        assert_eq!(steps[0].setting, setting, "it was chosen");
        let (_, steps) = run.run(&load, 13);
        let reasons = [GuideReason::Undone, GuideReason::Saturated];
        let undone = steps.iter().find(|step| reasons.contains(&step.reason));
        assert!(undone.is_some(), "{load:?}, {setting}: {steps:?}");
        assert_eq!(run.guide.setting(), PEAK);
        run.run(&load, 600);
        let after = load.measured(run.guide.setting());
        assert!(after.p99_ns < 1.3 * load.measured(PEAK).p99_ns, "{setting}");
    }
}

#[test]
fn a_setting_that_slows_clients_down_is_undone() {
    let load = LOADS[0];
    let late = Setting { active: 8, spin_ns: 0, coalesce_ns: 10_000_000 };
    let mut run = Run::new(planted(&load, late));
    let (mut is_chosen, mut reasons) = (false, Vec::new());
    for interval in 1..=30 {
        // Clients that wait for responses request less, and then make up for it.
        let setting = run.guide.setting();
        is_chosen |= setting == late;
        let rate = match setting {
            _ if setting == late => 45_000.0,
            _ if is_chosen => 150_000.0,
            _ => load.rate,
        };
        let mut sample = run.noise.sample(&Traffic { rate, ..load }, setting);
        // The delay is not visible in the program.
        sample.measured.as_mut().unwrap().p99_ns = 50e3;
        reasons.push(run.guide.sampled(interval * INTERVAL, &sample).reason);
        if reasons.contains(&GuideReason::Undone) {
            break;
        }
    }
    assert!(is_chosen && reasons.contains(&GuideReason::Undone), "{reasons:?}");
    assert_eq!(run.guide.setting(), PEAK);
}

#[test]
fn a_delay_is_compared_with_the_time_that_the_client_waits() {
    let load = LOADS[0];
    // The client's p99 contains 10 ms that the program does not see.
    let points: Vec<_> = settings()
        .map(|setting| {
            let mut point = load.point(setting);
            point.measured.p99_ns += 10e6;
            point
        })
        .collect();
    let peak = *points.iter().find(|point| point.setting == PEAK).unwrap();
    let mix = Mix { name: "distant".into(), peak, points: pareto(&points) };
    let mut run = Run::new(TrafficProfile { mixes: vec![mix] });
    let (_, steps) = run.run(&load, 15);
    assert!(steps[0].setting.coalesce_ns > 0, "{steps:?}");
    assert!(steps.iter().all(|step| step.reason != GuideReason::Undone), "{steps:?}");
    assert_eq!(run.guide.setting(), steps[0].setting);
}

#[test]
fn unknown_traffic_gets_all_processors_and_is_learned() {
    for load in [
        UNSEEN,
        Traffic { rate: 500.0, bytes: 1e6, typical: 1e6, service: 900_000.0, crowding: 0.02 },
    ] {
        let mut run = Run::new(profile(&LOADS));
        run.run(&LOADS[0], 4);
        let (_, steps) = run.run(&load, 2);
        assert_eq!(steps.last().unwrap().reason, GuideReason::Unknown, "{steps:?}");
        assert_eq!(run.guide.setting(), PEAK);
        run.run(&load, 1_200);
        let reached = load.measured(run.guide.setting()).cost_ns / load.least_cost();
        assert!(reached <= 1.10, "{load:?}: {reached} of the best");
        let late = load.measured(run.guide.setting()).p99_ns / load.measured(PEAK).p99_ns;
        assert!(late <= 1.2, "{late}");
        assert_eq!(run.guide.profile().mixes.len(), 4, "one more mix");
    }
}

#[test]
fn small_and_large_transfers_are_not_taken_for_others_of_their_mean() {
    // Nine responses of 120 B and one of 1 MB.
    let mixed = Traffic { typical: 300.0, ..LOADS[1] };
    let mut run = Run::new(profile(&LOADS));
    run.run(&LOADS[1], 4);
    let (_, steps) = run.run(&mixed, 2);
    assert_eq!(steps.last().unwrap().reason, GuideReason::Unknown, "{steps:?}");
    assert_eq!(run.guide.setting(), PEAK);
    run.run(&mixed, 60);
    assert_eq!(run.guide.profile().mixes.len(), 4, "one more mix");
    let (_, steps) = run.run(&LOADS[1], 2);
    assert_eq!(steps.last().unwrap().mix.unwrap().0, 1, "{steps:?}");
}

#[test]
fn a_mix_without_a_better_setting_gets_all_processors_of_this_program() {
    let load = LOADS[0];
    // The point was measured with half of the processors, and none of them could be spared.
    let half = Setting { active: PROCESSORS / 2, ..PEAK };
    let mix = Mix { name: "half".into(), peak: load.point(half), points: vec![load.point(half)] };
    let mut run = Run::new(TrafficProfile { mixes: vec![mix] });
    let (_, steps) = run.run(&load, 2);
    assert_eq!(steps[0].reason, GuideReason::Recognised);
    assert_eq!(run.guide.setting(), PEAK);
}

#[test]
fn saturation_leads_to_all_processors_at_once() {
    let calm = Traffic { rate: 20_000.0, ..LOADS[0] };
    let burst = Traffic { rate: 400_000.0, ..calm };
    let mut run = Run::new(profile(&[calm]));
    run.run(&calm, 30);
    let chosen = run.guide.setting();
    assert!(chosen.active < PROCESSORS, "{chosen}");
    let sample = run.noise.sample(&burst, Setting { active: 1, ..chosen });
    assert!(sample.is_saturated);
    let step = run.guide.sampled(run.now + 1, &sample);
    assert_eq!((step.setting, step.reason), (PEAK, GuideReason::Saturated));
}

#[test]
fn comparisons_become_rare_under_steady_traffic() {
    let load = LOADS[1];
    let mut run = Run::new(profile(&[load]));
    run.run(&load, 60);
    let steps = [600, 600, 600, 600].map(|seconds| run.run(&load, seconds).1.len());
    // A comparison takes up to three steps.
    assert!(steps.iter().all(|steps| *steps <= 24) && steps[3] <= 6, "{steps:?}");
}

#[test]
fn a_comparison_ends_when_the_traffic_changes() {
    let mut run = Run::new(profile(&LOADS));
    let (_, steps) = run.run(&LOADS[0], 5);
    assert_eq!(steps.last().unwrap().reason, GuideReason::Trial, "{steps:?}");
    let chosen = steps[0].setting;
    let (_, steps) = run.run(&LOADS[1], 1);
    assert_eq!((steps[0].reason, steps[0].setting), (GuideReason::Invalid, chosen));
    let (mix, distance) = steps[0].mix.unwrap();
    assert!(mix == 0 && distance > 0.47, "the distance of the new traffic from the old mix");
}

#[test]
fn a_measured_cost_is_that_of_the_predicted_setting() {
    let mut run = Run::new(profile(&LOADS));
    let (_, steps) = run.run(&LOADS[0], 15);
    for step in &steps {
        let is_comparison = [GuideReason::Kept, GuideReason::Undone].contains(&step.reason);
        assert_eq!(step.measured.is_some(), is_comparison, "{step:?}");
        assert_eq!(step.measured_before.is_some(), !is_comparison, "{step:?}");
    }
    // The advised setting is not in force, so it is never measured.
    let mut advising = Guide::new(profile(&LOADS), 1, PEAK).without_trials();
    for interval in 1..20 {
        let step = advising.sampled(interval * INTERVAL, &run.noise.sample(&LOADS[0], PEAK));
        assert_eq!(step.measured.is_some(), step.setting == PEAK, "{step:?}");
    }
    assert_ne!(advising.setting(), PEAK);
}

#[test]
fn interrupted_comparisons_become_rare() {
    let mut run = Run::new(profile(&LOADS));
    run.run(&LOADS[0], 2);
    let mut changes = 0;
    for _ in 0..60 {
        changes += run.run(&LOADS[0], 3).1.len();
        run.now += INTERVAL;
        let step = run.guide.sampled(run.now, &Sample::default());
        changes += usize::from(step.reason != GuideReason::Steady);
    }
    assert!((1..=16).contains(&changes), "{changes}");
}

#[test]
fn connections_that_move_do_not_end_a_comparison() {
    let mut trial = Trial::new(PEAK, Setting { active: 1, ..PEAK });
    let mut add = |opens_per_operation| {
        let indicators = Indicators { opens_per_operation, ..LOADS[0].indicators() };
        let measured = Some(Measured::default());
        trial.add(&Sample { indicators, measured, ..Sample::default() })
    };
    for _ in 0..4 {
        assert!(matches!(add(0.0), Progress::Continues(_)));
    }
    assert!(matches!(add(1.0), Progress::Continues(_)), "the first sample after a change");
    assert!(matches!(add(0.0), Progress::Continues(_)));
    assert!(matches!(add(1.0), Progress::Invalid));
}

#[test]
fn varying_unknown_traffic_becomes_one_mix() {
    let mut run = Run::new(profile(&LOADS));
    // The number of sockets differs from every mix, however often a mix is learned.
    for round in 1..60 {
        let mut sample = run.noise.sample(&UNSEEN, PEAK);
        sample.indicators.sockets = f64::from(1 << (round % 10)) * 64.0;
        run.now += INTERVAL;
        run.guide.sampled(run.now, &sample);
    }
    assert!(run.guide.profile().mixes.len() <= LOADS.len() + 3);
}

impl Run {
    /// Runs for some seconds with this load, but too little traffic to measure its cost. Returns the active processors.
    fn idle(&mut self, load: u32, seconds: u64) -> usize {
        for _ in 0..seconds * 1_000_000_000 / INTERVAL {
            self.now += INTERVAL;
            self.guide.sampled(self.now, &Sample { load, ..Sample::default() });
        }
        self.guide.setting().active
    }
}

#[test]
fn too_little_traffic_gets_the_processors_that_its_load_needs() {
    let mut run = Run::new(profile(&LOADS));
    assert_eq!([run.idle(100, 3), run.idle(100, 2)], [PROCESSORS, 1], "an idle program");
    let (_, steps) = run.run(&LOADS[0], 3);
    assert_eq!((steps[0].reason, steps[0].setting), (GuideReason::Resumed, PEAK), "{steps:?}");
    assert_eq!(steps[1].reason, GuideReason::Recognised, "{steps:?}");
    let chosen = steps[1].setting.active;
    assert!((2..PROCESSORS).contains(&chosen));
    assert_eq!([run.idle(100, 3), run.idle(100, 2)], [chosen, 1], "its traffic has ended");
    let (_, steps) = run.run(&LOADS[0], 3);
    assert_eq!((steps[0].reason, steps[0].setting.active), (GuideReason::Recognised, chosen));
    // The first sample after silence has traffic in a part of its time.
    assert_eq!(run.idle(100, 5), 1);
    let part = Traffic { rate: 0.3 * LOADS[0].rate, ..LOADS[0] };
    let sample = run.noise.sample(&part, run.guide.setting());
    run.now += INTERVAL;
    let step = run.guide.sampled(run.now, &sample);
    assert_eq!((step.reason, step.setting.active), (GuideReason::Resumed, chosen));

    // Few operations, each of which takes long.
    let mut run = Run::new(profile(&LOADS));
    assert_eq!([run.idle(2_400, 5), run.idle(2_400, 60)], [3, 3]);
    assert_eq!([run.idle(1_600, 3), run.idle(1_600, 2)], [3, 2]);
}

#[test]
fn a_number_that_was_too_small_in_silence_is_avoided_for_longer() {
    let mut run = Run::new(profile(&LOADS));
    let saturated = Sample { is_saturated: true, ..Sample::default() };
    for patience in [4, 8, 16, 32, 64, 128, 128] {
        assert_eq!(run.idle(100, patience), PROCESSORS);
        assert_eq!(run.idle(100, 1), 1, "{patience}");
        run.now += INTERVAL;
        assert_eq!(run.guide.sampled(run.now, &saturated).setting, PEAK);
    }
}

#[test]
fn unknown_traffic_after_silence_gets_all_processors() {
    let mut run = Run::new(profile(&LOADS));
    assert_eq!(run.idle(0, 5), 1);
    let sample = run.noise.sample(&UNSEEN, PEAK);
    let step = run.guide.sampled(run.now + INTERVAL, &sample);
    assert_eq!((step.setting, step.reason), (PEAK, GuideReason::Unknown));
}

#[test]
fn a_mix_is_left_only_for_one_that_is_clearly_nearer() {
    let at = |rate| Traffic { rate, ..LOADS[0] };
    let profile = profile(&[at(10_000.0), at(15_000.0)]);
    let recognise =
        |rate, current| profile.recognise(&at(rate).indicators(), current).map(|(mix, _)| mix);
    assert_eq!(recognise(12_500.0, None), Some(1));
    assert_eq!(recognise(12_500.0, Some(0)), Some(0));
    assert_eq!(recognise(14_000.0, Some(0)), Some(1));
    assert_eq!(recognise(40_000.0, Some(1)), None);
}

proptest! {
    /// The setting stays within its bounds for all measurements.
    #[test]
    fn settings_stay_within_bounds(
        samples in prop::collection::vec(
            (0usize..4, prop::option::of((any::<f64>(), any::<f64>())), any::<bool>(), any::<bool>()),
            0..200,
        ),
        min in 1usize..=8,
    ) {
        let mut guide = Guide::new(profile(&LOADS), min, PEAK);
        for (at, (load, measured, is_saturated, is_wild)) in samples.into_iter().enumerate() {
            let mut indicators =
                LOADS.get(load).map_or(Indicators::default(), Traffic::indicators);
            if is_wild {
                indicators.bytes_out_per_operation = f64::NAN;
            }
            let measured = measured.map(|(cost_ns, p99_ns)| Measured { cost_ns, p99_ns });
            let sample = Sample { indicators, measured, load: at as u32 * 50, is_saturated };
            let step = guide.sampled(at as u64 * INTERVAL * 20, &sample);
            prop_assert!((min..=PROCESSORS).contains(&step.setting.active));
            prop_assert!(step.setting.coalesce_ns <= 1_000_000);
        }
    }
}
