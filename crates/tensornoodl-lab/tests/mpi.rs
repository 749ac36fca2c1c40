//! Jobs of several ranks end in the bits of one process. A program that was built without the feature `mpi` refuses
//! to run as several copies.

#![allow(clippy::unwrap_used)]

#[path = "../../tensornoodl-cli/tests/common/mod.rs"]
mod common;

mod without {
    use std::process::{Command, Output};

    use crate::common::{program, stderr, stdout};

    const RECOVER: [&str; 5] = ["recover", "--rows=10", "--cols=10", "--max-steps=1", "-q"];

    /// Runs `noodl-lab` with the variables of a launcher.
    fn started(args: &[&str], variables: &[(&str, &str)]) -> Output {
        let mut command = Command::new(program("noodl-lab"));
        // These tests may have been started by a launcher.
        for name in
            ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "PMIX_RANK"]
        {
            command.env_remove(name);
        }
        command.args(args).envs(variables.iter().copied()).output().unwrap()
    }

    pub(crate) fn copies_of_it_are_refused() {
        for (variables, times) in [
            ([("OMPI_COMM_WORLD_SIZE", "2"), ("OMPI_COMM_WORLD_RANK", "0")], "2 times"),
            ([("PMI_SIZE", "3"), ("PMI_RANK", "0")], "3 times"),
            ([("MV2_COMM_WORLD_SIZE", "3"), ("MV2_COMM_WORLD_RANK", "0")], "3 times"),
            ([("SLURM_STEP_NUM_TASKS", "4"), ("SLURM_PROCID", "0")], "4 times"),
            ([("PMIX_RANK", "0"), ("PMIX_NAMESPACE", "job")], "as a rank of a job"),
        ] {
            let refused = started(&RECOVER, &variables);
            assert_eq!(refused.status.code(), Some(2), "{variables:?}: {}", stdout(&refused));
            let said = stderr(&refused);
            assert!(said.contains(times) && said.contains("--features mpi"), "{variables:?}: {said}");
            assert_eq!(said.lines().count(), 1, "{said}");
            // Only the first rank writes the message.
            let [first, (rank, _)] = variables;
            let rank = if first.0 == "PMIX_RANK" { first.0 } else { rank };
            let silent = started(&RECOVER, &[first, (rank, "1")]);
            assert_eq!((silent.status.code(), stderr(&silent)), (Some(2), String::new()), "{variables:?}");
        }
    }

    pub(crate) fn one_alone_is_not_refused() {
        for variables in [
            &[("OMPI_COMM_WORLD_SIZE", "1"), ("OMPI_COMM_WORLD_RANK", "0"), ("PMIX_RANK", "0")][..],
            // The script of a job of eight tasks, or a shell in such a job.
            &[("SLURM_NTASKS", "8"), ("SLURM_NPROCS", "8"), ("SLURM_JOB_ID", "1"), ("SLURM_PROCID", "0")],
            // A shell that is a step of its own.
            &[("SLURM_NTASKS", "8"), ("SLURM_STEP_NUM_TASKS", "1"), ("PMIX_RANK", "0")],
        ] {
            let alone = started(&RECOVER, variables);
            assert!(alone.status.success(), "{variables:?}: {}", stderr(&alone));
        }
    }
}

mod with {
    use std::fs;
    use std::path::Path;

    use serde_json::Value;

    use crate::common::mpi::{days, mpirun, turn};
    use crate::common::{folder, lab, noodl, stderr, stdout};

    /// Returns the parts of the records that must have equal bits for any number of ranks, and the oracle errors,
    /// whose last bits may differ. Times and exchanges are left out.
    fn told(lines: &str) -> (Vec<String>, Vec<f64>) {
        let (mut same, mut near) = (Vec::new(), Vec::new());
        for line in lines.lines() {
            let Value::Object(mut record) = serde_json::from_str(line).unwrap() else { panic!("{line}") };
            record
                .retain(|name, _| !name.ends_with("seconds") && name != "exchanges" && name != "sent_bytes");
            near.extend(record.remove("oracle_error_a").and_then(|error| error.as_f64()));
            same.push(serde_json::to_string(&record).unwrap());
        }
        (same, near)
    }

    pub(crate) fn the_recovery_claim_has_the_same_bits() {
        let _turn = turn();
        let small = "recover --json --features 60 --patterns 30 --rows 60 --cols 50 --max-steps 6";
        for way in [
            "--tolerance 0",
            "--tolerance 0 --noise 0.2 --col-values subgaussian:0.5",
            "--start data --late 8 --late-step 3",
            "--start data --noise 0.1 --scale 1000",
            "--rule paper --eta-a 5 --passes 2 --threads 1",
            "--passes auto --samples independent --rows 200 --cols 200",
        ] {
            let args = format!("{small} {way}");
            let alone = lab(&args);
            assert!(alone.status.success(), "{}", stderr(&alone));
            let (same, near) = told(&stdout(&alone));
            assert!(same.len() > 2);
            for ranks in 1..=4 {
                let team = mpirun(ranks, &format!("noodl-lab {args}"));
                assert!(team.status.success(), "{way}, {ranks} ranks: {}", stderr(&team));
                let (others, roughly) = told(&stdout(&team));
                assert_eq!(others, same, "{way}, {ranks} ranks");
                let close = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-12 * a.max(1e-3);
                assert!(
                    near.len() == roughly.len() && near.iter().zip(&roughly).all(close),
                    "{near:?} {roughly:?}"
                );
            }
        }
    }

    /// Learns as one process and as 1 to 4 ranks, and compares the model files.
    fn same_file(folder: &Path, args: &str) {
        let model = folder.join("model.safetensors");
        let args = format!("learn {args} -q -o {}", model.display());
        let alone = noodl(&args);
        assert!(alone.status.success(), "{args}: {}", stderr(&alone));
        let bits = fs::read(&model).unwrap();
        for ranks in 1..=4 {
            fs::remove_file(&model).unwrap();
            let team = mpirun(ranks, &format!("noodl {args}"));
            assert!(team.status.success(), "{args}, {ranks} ranks: {}", stderr(&team));
            assert!(fs::read(&model).unwrap() == bits, "{args}, {ranks} ranks");
            // Only the first rank prints.
            assert_eq!(stdout(&team), stdout(&alone), "{ranks} ranks");
            let said = stderr(&team);
            assert!(!said.lines().any(|line| line.starts_with("noodl:")), "{ranks} ranks: {said}");
        }
    }

    pub(crate) fn a_table_becomes_the_same_model() {
        let _turn = turn();
        let folder = folder("mpi_a_table_becomes_the_same_model");
        let table = days(&folder, 40).display().to_string();
        let axes = format!("{table} --feature kind --row from --col to");
        for way in [
            "",
            "--recipe log2,scale,center --patterns 2",
            "--step day",
            "--step day --value sum(size) --checkpoint-every 5",
            "--step day --value mean(size) --keep-rows 10 --patterns 3",
            "--step day --average-over kind --recipe scale",
            "--square --where from!=@to --eta-a 5 --passes 3",
        ] {
            same_file(&folder, &format!("{axes} {way}"));
        }
        same_file(&folder, &format!("{table} --feature grid(x,y,4x3) --row from --col to --step day"));
    }

    /// Codes lie exactly on the thresholds C / 2 and tau, so that the last bit of a pattern decides.
    pub(crate) fn codes_at_the_thresholds() {
        let _turn = turn();
        let folder = folder("mpi_codes_at_the_thresholds");
        let table = folder.join("edge.csv");
        let mut text = String::from("step,feature,row,col,value\n");
        for step in 0..4 {
            for (row, col) in (0..40).flat_map(|row| (0..40).map(move |col| (row, col))) {
                let (one, two) = ((row + col + step) % 8, (row * 3 + col) % 8);
                let value = if (row + col) % 3 == 0 { -0.5 } else { 1.0 };
                text += &format!("{step},{one},{row},{col},0.5\n{step},{two},{row},{col},{value}\n");
            }
        }
        fs::write(&table, text).unwrap();
        let axes = format!(
            "{} --feature feature --row row --col col --value sum(value) --step step",
            table.display()
        );
        same_file(&folder, &format!("{axes} --tau 0.5 --code-floor 1 --patterns 8"));
        same_file(
            &folder,
            &format!("{axes} --tau 0.5 --code-floor 1 --patterns 8 --passes auto --eta-x 0.3"),
        );
        // In the units of the data.
        same_file(&folder, &format!("{axes} --tau 0.5 --code-floor 1 --patterns 8 --eta-a 0.01 --passes 2"));
    }

    /// The exchanges of a step do not grow with the number of ranks or the size of the tensors.
    pub(crate) fn bytes_and_calls_of_a_step() {
        let _turn = turn();
        let (n, m) = (20, 6);
        for rows in [40, 80] {
            for ranks in 2..=4 {
                // So dense that any two patterns meet in some fiber; pairs that do not meet are not sent.
                let args = format!(
                    "recover --json --features {n} --patterns {m} --rows {rows} --cols 40 --alpha 0.5 --beta 0.5 --tolerance 0 \
                     --max-steps 3 --noise 0.1"
                );
                let team = mpirun(ranks, &format!("noodl-lab {args}"));
                assert!(team.status.success(), "{}", stderr(&team));
                // Sums: the gradient (n for each pattern), for each pattern the evidence that it shares with others
                // and its moments with earlier patterns and itself, the residual, and two energies.
                let pairs = m * (m + 1) / 2;
                let (columns, sums) = (m + m + pairs + 3, n * m + m + pairs + 3);
                // Counts: six of codes, two of fibers, and two of each pattern.
                let counts = 6 + 2 + 2 * m;
                // A byte for the level of each column of sums, and one for alarms; then 16 bytes for each sum.
                let learning = (1 + columns) + 8 * (counts + 2 * sums);
                // The errors: how often each pattern was shown and the number of found codes; then a message of two
                // exact sums (a level of a byte and three slices of eight bytes each) and a verdict of a byte, after
                // its length.
                let measuring = 8 * (m + 1) + 8 + 2 * (1 + 3 * 8) + 1;
                for line in stdout(&team).lines().take(3) {
                    let step: Value = serde_json::from_str(line).unwrap();
                    let [calls, bytes] = ["exchanges", "sent_bytes"].map(|name| step[name].as_u64().unwrap());
                    assert_eq!(calls, 2 + 1 + 2, "{ranks} ranks: {line}");
                    assert_eq!(bytes, (learning + measuring) as u64, "{ranks} ranks: {line}");
                }
            }
        }
    }
}

fn main() {
    let built_with_mpi = cfg!(feature = "mpi").then(|| "built with the feature mpi".to_owned());
    run_tests!(
        built_with_mpi => [without::copies_of_it_are_refused, without::one_alone_is_not_refused],
        common::mpi::no_mpi() => [with::the_recovery_claim_has_the_same_bits, with::a_table_becomes_the_same_model, with::codes_at_the_thresholds, with::bytes_and_calls_of_a_step]
    )
}
