//! A year of e-mail of an invented company: groups of people, each with its own rhythm over the hours of the week.
//!
//! The members of a group write to each other at the hours of its rhythm, in most weeks, some people more than
//! others. Some mail is sent at other hours, and some between people who share no group.

use std::fmt::Write;
use std::ops::Range;

use jiff::ToSpan;
use jiff::civil::{Date, date};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// People who write to each other at certain hours of the week.
pub(crate) struct Group {
    pub(crate) name: &'static str,
    /// The rhythm in words.
    pub(crate) when: &'static str,
    /// The people who write, as indices into [`PEOPLE`].
    pub(crate) senders: Vec<usize>,
    /// The people they write to, as indices into [`PEOPLE`].
    pub(crate) receivers: Vec<usize>,
    /// For each hour of the week, from Monday 0:00 on: the probability that a sender writes to a receiver.
    pub(crate) rhythm: Vec<f64>,
    /// The first month of the group, from 1.
    pub(crate) since: i8,
}

/// All people of the company. The names are invented.
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

/// The first day of the year, a Monday.
const FIRST: Date = date(2024, 1, 1);

/// The range of the activity of a sender and of a receiver; the product of both multiplies the probabilities of the
/// rhythm.
const ACTIVITY: Range<f64> = 0.63..1.05;

/// Mails between two members at hours outside the rhythm, as a share of their mails of the rhythm.
const OFF: f64 = 0.15;

/// Mails per week between people who are drawn from the whole company.
const STRAY: f64 = 10.0;

/// Days of the week, and the hours of each day with their probabilities.
type Beat<'a> = (Range<usize>, &'a [(usize, f64)]);

fn people(parts: &[Range<usize>]) -> Vec<usize> {
    parts.iter().cloned().flatten().collect()
}

/// Returns the probabilities of all hours of the week.
fn rhythm(beats: &[Beat<'_>]) -> Vec<f64> {
    let mut week = vec![0.0; 7 * 24];
    for (days, hours) in beats {
        for day in days.clone() {
            hours.iter().for_each(|(hour, chance)| week[24 * day + hour] = *chance);
        }
    }
    week
}

/// Returns a group whose members write to each other all year.
fn team(name: &'static str, when: &'static str, members: &[Range<usize>], rhythm: Vec<f64>) -> Group {
    Group { name, when, senders: people(members), receivers: people(members), rhythm, since: 1 }
}

/// Returns all groups of the company.
pub(crate) fn groups() -> Vec<Group> {
    let mut groups = departments();
    groups.extend(other_groups());
    groups
}

fn departments() -> Vec<Group> {
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
    ]
}

fn other_groups() -> Vec<Group> {
    vec![
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

/// Returns the table of mails as CSV, ordered by time. The random draws have a fixed seed, so the table is always
/// equal.
pub(crate) fn mail(groups: &[Group]) -> String {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    // For each pair of a group: the factor of the rhythm, and the probability at any other hour.
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
