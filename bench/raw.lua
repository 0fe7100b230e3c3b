-- Send one and the same request, byte for byte as it stands in a file, as fast as answers come, whatever they are.
-- Arguments: the file.

local text

function init(args)
  local file = assert(io.open(args[1], "rb"))
  text = file:read("*a")
  file:close()
end

function request()
  return text
end

function done(summary, latency, requests)
  local errors = summary.errors
  io.write(string.format(
    '\n{"requests":%d,"microseconds":%d,"not_200":%d,"broken":%d,"p50":%.1f,"p99":%.1f}\n',
    summary.requests, summary.duration, errors.status,
    errors.connect + errors.read + errors.write + errors.timeout,
    latency:percentile(50), latency:percentile(99)))
end
