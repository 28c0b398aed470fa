// The interval of agentgym_rl.eval.intervals.share_interval, over the tasks that the page shows.

const DRAWS = 1000;
const Z = 1.959964;

// 95% interval of a mean of tasks' shares: Wilson's where each is 0 or 1, or all are alike; else the percentile
// bootstrap over tasks, which draws the same for the same values.
function shareInterval(values) {
  const alike = values.every((value) => value === values[0]);
  if (!alike && values.some((value) => value !== 0 && value !== 1)) return bootstrap(values);
  const n = values.length, sum = values.reduce((one, other) => one + other, 0);
  return wilson(Math.min(n, Math.max(0, rounded(sum))), n);
}

// The nearest whole number; of two the even one, as Python has it.
function rounded(value) {
  const up = Math.round(value);
  return up - value === 0.5 && up % 2 ? up - 1 : up;
}

function wilson(successes, n) {
  const p = successes / n, middle = p + (Z * Z) / (2 * n), whole = 1 + (Z * Z) / n;
  const reach = Z * Math.sqrt((p * (1 - p)) / n + (Z * Z) / (4 * n * n));
  return [Math.max(0, (middle - reach) / whole), Math.min(1, (middle + reach) / whole)];
}

function bootstrap(values) {
  const n = values.length, means = new Float64Array(DRAWS);
  let state = 2463534242; // xorshift, Marsaglia 2003
  for (let draw = 0; draw < DRAWS; draw++) {
    let sum = 0;
    for (let place = 0; place < n; place++) {
      state ^= state << 13;
      state ^= state >>> 17;
      state ^= state << 5;
      sum += values[(state >>> 0) % n];
    }
    means[draw] = sum / n;
  }
  means.sort();
  return [0.025, 0.975].map((share) => means[Math.round(share * (DRAWS - 1))]);
}
