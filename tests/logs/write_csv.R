# Writes the logs beside it, as R does by default: quoted labels, row names, NA, TRUE, scientific notation.
# Run: Rscript write_csv.R
arm <- factor(c("blue", "red", "blue", "dark, \"red\""), levels = c("red", "blue", "dark, \"red\""))
log <- data.frame(
  arm = arm,
  reward = c(0.1 + 0.2, -1e-20, 1e+05, 2),
  propensity = c(NA, 0.5, 1 / 3, 1),
  forced = c(TRUE, FALSE, FALSE, FALSE),
  batch = c(0L, 1L, 1L, 100000L)
)
log$propensity <- ifelse(log$forced, NA, log$propensity)
write.csv(log, "r_row_names.csv")
write.csv(log, "r_plain.csv", row.names = FALSE)
write.csv2(log, "r_semicolons.csv", row.names = FALSE)
write.table(log, "r_tabs.tsv", sep = "\t", row.names = FALSE, qmethod = "double")
write.table(log, "r_short_header.csv", sep = ",", qmethod = "double")
log$reward[3] <- NA
write.csv(log, "r_missing_reward.csv", row.names = FALSE)
