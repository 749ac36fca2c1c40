//! A year of e-mail of a firm that never was: groups of people, each with its own rhythm over the hours of the week.
//!
//! Whoever writes in a group does so at the hours of its rhythm, most weeks but not all, some people more than others. Some
//! mail comes at other hours, and some between people who have nothing to do with each other.

use std::fmt::Write;
use std::ops::Range;

use jiff::ToSpan;
use jiff::civil::{Date, date};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// People who write to each other, and when.
pub(crate) struct Group {
    pub(crate) name: &'static str,
    /// The rhythm in words.
    pub(crate) when: &'static str,
    /// Numbers of people.
    pub(crate) senders: Vec<usize>,
    /// And to whom they write.
    pub(crate) receivers: Vec<usize>,
    /// For each hour of the week, from Monday's first: how likely it is that the one writes to the other.
    pub(crate) rhythm: Vec<f64>,
    /// Its first month, from 1.
    pub(crate) since: i8,
}

/// None of them is anyone.
pub(crate) const PEOPLE: [&str; 50] = [
    // Support.
    "Abel Tornquill",
    "Bryn Oakhollow",
    "Cleo Varrenby",
    "Dario Pellworth",
    "Edda Kestermann",
    "Farid Elmsgate",
    "Greta Silverlund",
    "Hugo Brackenway",
    "Imke Dunderholt",
    "Jarek Wolnicza",
    // Sales.
    "Kira Meadowsen",
    "Lorenz Aldermoor",
    "Mina Castellop",
    "Noor Fennimar",
    "Otis Harrowick",
    "Pia Lindqvale",
    "Quentin Rookbury",
    "Rosa Tamburell",
    "Silas Yarnwood",
    "Tilda Esterhaus",
    // Engineering.
    "Ulf Branderley",
    "Vera Holmquint",
    "Wim Oosterbloom",
    "Xenia Parvanova",
    "Yusuf Carradel",
    "Zora Winterfeld",
    "Anouk Delavigna",
    "Bela Kornhagen",
    "Cyril Netherby",
    "Dunja Straskova",
    "Emil Fjordgaard",
    // Finance.
    "Flora Quickmere",
    "Gideon Ashlocke",
    "Hanne Overbeeck",
    "Ivo Marchetall",
    "Juna Tillworthy",
    "Kasper Rieswald",
    "Lena Goldacker",
    // Warehouse.
    "Milo Steepleton",
    "Nadia Bergamore",
    "Oskar Plumridge",
    "Paula Eikenrood",
    "Rufus Danbrook",
    "Sanne Vliegwerf",
    "Theo Grasshoff",
    "Uma Lakewright",
    // The front office.
    "Viktor Sandelin",
    "Wanda Kirschbom",
    "Yara Montelune",
    "Anselm Frostad",
];

const SUPPORT: Range<usize> = 0..10;
const SALES: Range<usize> = 10..20;
const ENGINEERING: Range<usize> = 20..31;
const FINANCE: Range<usize> = 31..38;
const WAREHOUSE: Range<usize> = 38..46;
const FRONT_OFFICE: Range<usize> = 46..50;
const ALL_OTHERS: Range<usize> = 0..46;
const RELEASERS: Range<usize> = 20..25;

/// The year; it begins on a Monday.
const FIRST: Date = date(2024, 1, 1);

/// Everyone writes, and is written to, with a strength between these: the most active two never miss their hour.
const ACTIVITY: Range<f64> = 0.63..1.05;

/// For each mail of a group's rhythm, mails at any hour of the week between the same two.
const OFF: f64 = 0.15;

/// Mails a week between any two people.
const STRAY: f64 = 10.0;

/// Some days of the week, and hours of each with how likely they are.
type Beat<'a> = (Range<usize>, &'a [(usize, f64)]);

/// All that is planted.
pub(crate) fn groups() -> Vec<Group> {
    let people = |parts: &[Range<usize>]| -> Vec<usize> { parts.iter().cloned().flatten().collect() };
    let rhythm = |parts: &[Beat<'_>]| {
        let mut week = vec![0.0; 7 * 24];
        for (days, hours) in parts {
            for day in days.clone() {
                hours.iter().for_each(|(hour, chance)| week[24 * day + hour] = *chance);
            }
        }
        week
    };
    let team = |name, when, members: &[Range<usize>], rhythm: Vec<f64>| Group {
        name,
        when,
        senders: people(members),
        receivers: people(members),
        rhythm,
        since: 1,
    };
    vec![
        team(
            "Support",
            "when shifts change",
            &[SUPPORT],
            rhythm(&[(0..7, &[(6, 1.0), (14, 1.0), (22, 1.0)])]),
        ),
        team(
            "Sales",
            "Friday mornings",
            &[SALES],
            rhythm(&[(0..4, &[(9, 0.5)]), (4..5, &[(9, 0.7), (10, 1.0), (11, 1.0), (12, 1.0), (13, 0.6)])]),
        ),
        team(
            "Engineering",
            "late in the day",
            &[ENGINEERING],
            rhythm(&[(0..4, &[(16, 0.5), (17, 1.0), (18, 1.0), (19, 0.6)])]),
        ),
        team(
            "Finance",
            "early on Monday",
            &[FINANCE],
            rhythm(&[(0..1, &[(7, 0.6), (8, 1.0), (9, 1.0), (10, 0.6)]), (2..3, &[(14, 0.8), (15, 0.8)])]),
        ),
        team(
            "Warehouse",
            "before dawn and at noon",
            &[WAREHOUSE],
            rhythm(&[(0..6, &[(4, 0.6), (5, 1.0)]), (0..5, &[(12, 0.9)])]),
        ),
        Group {
            receivers: people(&[ALL_OTHERS]),
            ..team(
                "Front office",
                "to everyone, Monday and Friday",
                &[FRONT_OFFICE],
                rhythm(&[(0..1, &[(11, 1.0)]), (4..5, &[(15, 1.0), (16, 0.7)])]),
            )
        },
        Group {
            receivers: people(&[0..4, 25..29, 38..40]),
            ..team(
                "Release night",
                "five engineers, Tuesday past midnight",
                &[RELEASERS],
                rhythm(&[(1..2, &[(21, 0.6), (22, 1.0), (23, 1.0)]), (2..3, &[(0, 1.0), (1, 0.6)])]),
            )
        },
        team(
            "Running club",
            "on no chart",
            &[4..6, 12..14, 27..29, 35..37, 44..45],
            rhythm(&[(2..3, &[(6, 1.0), (7, 0.6)]), (5..6, &[(8, 0.7), (9, 1.0), (10, 0.8)])]),
        ),
        Group {
            since: 9,
            ..team(
                "Project Heron",
                "from September on",
                &[10..13, 29..31, 33..35, 46..48],
                rhythm(&[
                    (3..4, &[(12, 0.8), (13, 1.0), (14, 1.0), (15, 0.8)]),
                    (6..7, &[(18, 0.8), (19, 1.0), (20, 0.8)]),
                ]),
            )
        },
    ]
}

/// The table: a line for each mail, in order. It is drawn by chance, and always the same.
pub(crate) fn mail(groups: &[Group]) -> String {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    // How likely two people of a group write at an hour of its rhythm, and at any other.
    let mut pairs = Vec::new();
    for group in groups {
        let mut draw =
            |people: &[usize]| -> Vec<f64> { people.iter().map(|_| rng.random_range(ACTIVITY)).collect() };
        let (out, into) = (draw(&group.senders), draw(&group.receivers));
        let off = OFF * group.rhythm.iter().sum::<f64>() / group.rhythm.len() as f64;
        for (from, out) in group.senders.iter().zip(&out) {
            let to = group.receivers.iter().zip(&into).filter(|(to, _)| *to != from);
            pairs.extend(to.map(|(to, into)| (group, *from, *to, out * into, off)));
        }
    }
    let mut table = String::from("time,from,to\n");
    for hour in 0..366 * 24 {
        let day = FIRST.saturating_add((hour / 24).days());
        let of_week = (hour % (7 * 24)) as usize;
        let mut mails = Vec::new();
        for &(group, from, to, activity, off) in &pairs {
            if day.month() >= group.since && rng.random::<f64>() < activity * group.rhythm[of_week].max(off) {
                mails.push((rng.random_range(0..60), from, to));
            }
        }
        if rng.random::<f64>() < STRAY / (7.0 * 24.0) {
            let from = rng.random_range(0..PEOPLE.len());
            let to = (from + rng.random_range(1..PEOPLE.len())) % PEOPLE.len();
            mails.push((rng.random_range(0..60), from, to));
        }
        mails.sort_unstable();
        for (minute, from, to) in mails {
            // Writing to a string cannot fail.
            let _ = writeln!(table, "{day} {:02}:{minute:02},{},{}", hour % 24, PEOPLE[from], PEOPLE[to]);
        }
    }
    table
}
