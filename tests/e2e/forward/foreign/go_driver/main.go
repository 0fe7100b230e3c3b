// Uses AWS SDK for Go v2 and its transfer managers: one JSON document on standard input, one JSON line for each step
// on standard output.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sort"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/feature/s3/manager"
	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

type asked struct {
	Origin       string   `json:"origin"`
	Region       string   `json:"region"`
	AccessKey    string   `json:"access_key"`
	Secret       string   `json:"secret"`
	SessionToken string   `json:"session_token"`
	Bucket       string   `json:"bucket"`
	Names        []string `json:"names"`
	Phase        string   `json:"phase"`
}

type told struct {
	Step   string `json:"step"`
	Value  any    `json:"value,omitempty"`
	Error  string `json:"error,omitempty"`
	Status int    `json:"status,omitempty"`
	Text   string `json:"text,omitempty"`
}

var background = context.Background()

// What a URL was answered with, where that is no success.
type refused struct {
	status int
	body   string
}

func (answer refused) Error() string {
	_, after, _ := strings.Cut(answer.body, "<Code>")
	code, _, _ := strings.Cut(after, "<")
	return code
}

func step(name string, action func() (any, error)) {
	line := told{Step: name}
	value, err := action()
	if err == nil {
		line.Value = value
	} else {
		var api smithy.APIError
		var response *smithyhttp.ResponseError
		var plain refused
		if errors.As(err, &plain) {
			line.Error, line.Status = "refused "+plain.Error(), plain.status
		} else if errors.As(err, &api) {
			line.Error = api.ErrorCode()
		} else {
			line.Error, line.Text = "other", err.Error()
		}
		if errors.As(err, &response) {
			line.Status = response.HTTPStatusCode()
		}
	}
	text, _ := json.Marshal(line)
	fmt.Println(string(text))
}

func whole(body io.ReadCloser) (string, error) {
	defer body.Close()
	read, err := io.ReadAll(body)
	return string(read), err
}

func main() {
	var ask asked
	if err := json.NewDecoder(os.Stdin).Decode(&ask); err != nil {
		panic(err)
	}
	bucket := aws.String(ask.Bucket)
	client := s3.New(s3.Options{
		BaseEndpoint:     aws.String(ask.Origin),
		Region:           ask.Region,
		UsePathStyle:     true,
		RetryMaxAttempts: 1,
		Credentials:      credentials.NewStaticCredentialsProvider(ask.AccessKey, ask.Secret, ask.SessionToken),
	})
	if ask.Phase == "clean-up" {
		cleanUp(client, bucket)
		return
	}
	large := bytes.Repeat([]byte("large-"), 2_000_000)

	for _, name := range ask.Names {
		key := aws.String(name)
		step("PutObject "+name, func() (any, error) {
			answer, err := client.PutObject(background, &s3.PutObjectInput{Bucket: bucket, Key: key,
				Body: strings.NewReader(name), ContentType: aws.String("text/plain"), Metadata: map[string]string{"a": "b c"}})
			if err != nil {
				return nil, err
			}
			return []any{answer.ETag, answer.ChecksumCRC32}, nil
		})
		step("HeadObject "+name, func() (any, error) {
			answer, err := client.HeadObject(background, &s3.HeadObjectInput{Bucket: bucket, Key: key,
				ChecksumMode: types.ChecksumModeEnabled})
			if err != nil {
				return nil, err
			}
			return []any{answer.ContentLength, answer.ContentType, answer.Metadata, answer.ETag, answer.ChecksumCRC32}, nil
		})
		step("GetObject "+name, func() (any, error) {
			answer, err := client.GetObject(background, &s3.GetObjectInput{Bucket: bucket, Key: key})
			if err != nil {
				return nil, err
			}
			return whole(answer.Body)
		})
	}
	step("PutObject of nothing", func() (any, error) {
		answer, err := client.PutObject(background, &s3.PutObjectInput{Bucket: bucket, Key: aws.String("empty")})
		if err != nil {
			return nil, err
		}
		return answer.ETag, nil
	})
	step("PutObject, unsigned payload", func() (any, error) {
		// A body that cannot be read twice is sent with a trailer over TLS alone; over HTTP the SDK says so.
		_, err := client.PutObject(background, &s3.PutObjectInput{Bucket: bucket, Key: aws.String("unseekable"),
			Body: io.MultiReader(strings.NewReader("unseekable")), ContentLength: aws.Int64(10)})
		return nil, err
	})
	for _, algorithm := range []types.ChecksumAlgorithm{types.ChecksumAlgorithmCrc32c, types.ChecksumAlgorithmCrc64nvme,
		types.ChecksumAlgorithmSha1, types.ChecksumAlgorithmSha256} {
		step("PutObject "+string(algorithm), func() (any, error) {
			answer, err := client.PutObject(background, &s3.PutObjectInput{Bucket: bucket, Key: aws.String("checked"),
				Body: strings.NewReader("checked"), ChecksumAlgorithm: algorithm})
			if err != nil {
				return nil, err
			}
			return []any{answer.ETag, answer.ChecksumCRC32C, answer.ChecksumCRC64NVME, answer.ChecksumSHA1, answer.ChecksumSHA256}, nil
		})
	}
	step("PutObject with a wrong checksum", func() (any, error) {
		_, err := client.PutObject(background, &s3.PutObjectInput{Bucket: bucket, Key: aws.String("wrong"),
			Body: strings.NewReader("checked"), ChecksumCRC32: aws.String("AAAAAA==")})
		return nil, err
	})
	step("GetObject range", func() (any, error) {
		answer, err := client.GetObject(background, &s3.GetObjectInput{Bucket: bucket, Key: aws.String("checked"),
			Range: aws.String("bytes=2-4")})
		if err != nil {
			return nil, err
		}
		read, err := whole(answer.Body)
		return []any{read, answer.ContentRange}, err
	})
	step("GetObject missing", func() (any, error) {
		_, err := client.GetObject(background, &s3.GetObjectInput{Bucket: bucket, Key: aws.String("missing")})
		return nil, err
	})
	step("HeadObject missing", func() (any, error) {
		_, err := client.HeadObject(background, &s3.HeadObjectInput{Bucket: bucket, Key: aws.String("missing")})
		return nil, err
	})
	step("CopyObject", func() (any, error) {
		answer, err := client.CopyObject(background, &s3.CopyObjectInput{Bucket: bucket, Key: aws.String("copied"),
			CopySource: aws.String(ask.Bucket + "/checked")})
		if err != nil {
			return nil, err
		}
		return answer.CopyObjectResult.ETag, nil
	})
	step("HeadBucket", func() (any, error) {
		_, err := client.HeadBucket(background, &s3.HeadBucketInput{Bucket: bucket})
		return nil, err
	})
	step("manager.Upload", func() (any, error) {
		answer, err := manager.NewUploader(client).Upload(background, &s3.PutObjectInput{Bucket: bucket,
			Key: aws.String("managed/large"), Body: bytes.NewReader(large)})
		if err != nil {
			return nil, err
		}
		return answer.ETag, nil
	})
	step("manager.Upload of a stream", func() (any, error) {
		answer, err := manager.NewUploader(client).Upload(background, &s3.PutObjectInput{Bucket: bucket,
			Key: aws.String("managed/stream"), Body: io.MultiReader(bytes.NewReader(large), strings.NewReader("end"))})
		if err != nil {
			return nil, err
		}
		return answer.ETag, nil
	})
	step("manager.Download", func() (any, error) {
		buffer := manager.NewWriteAtBuffer(nil)
		size, err := manager.NewDownloader(client).Download(background, buffer, &s3.GetObjectInput{Bucket: bucket,
			Key: aws.String("managed/large")})
		return []any{size, bytes.Equal(buffer.Bytes(), large)}, err
	})
	transfers := transfermanager.New(client)
	step("transfermanager.UploadObject", func() (any, error) {
		answer, err := transfers.UploadObject(background, &transfermanager.UploadObjectInput{Bucket: bucket,
			Key: aws.String("moved/large"), Body: bytes.NewReader(append(large, large...))})
		if err != nil {
			return nil, err
		}
		return answer.ETag, nil
	})
	step("transfermanager.GetObject", func() (any, error) {
		answer, err := transfers.GetObject(background, &transfermanager.GetObjectInput{Bucket: bucket,
			Key: aws.String("moved/large")})
		if err != nil {
			return nil, err
		}
		read, err := io.ReadAll(answer.Body)
		return []any{len(read), bytes.HasSuffix(read, large)}, err
	})
	step("ListObjectsV2 in pages", func() (any, error) {
		found := []string{}
		pages := s3.NewListObjectsV2Paginator(client, &s3.ListObjectsV2Input{Bucket: bucket, MaxKeys: aws.Int32(3)})
		for pages.HasMorePages() {
			page, err := pages.NextPage(background)
			if err != nil {
				return nil, err
			}
			for _, each := range page.Contents {
				found = append(found, *each.Key)
			}
		}
		return found, nil
	})
	step("no upload is left", func() (any, error) {
		answer, err := client.ListMultipartUploads(background, &s3.ListMultipartUploadsInput{Bucket: bucket})
		if err != nil {
			return nil, err
		}
		return len(answer.Uploads), nil
	})
	signer := s3.NewPresignClient(client)
	fetched := func(method, url string, header http.Header, body string) (any, error) {
		request, err := http.NewRequest(method, url, strings.NewReader(body))
		if err != nil {
			return nil, err
		}
		for name, values := range header {
			if name != "Host" && name != "Content-Length" {
				request.Header[name] = values
			}
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return nil, err
		}
		read, err := whole(answer.Body)
		if answer.StatusCode >= 400 {
			return nil, refused{answer.StatusCode, read}
		}
		return []any{answer.StatusCode, read}, err
	}
	step("presigned PUT", func() (any, error) {
		made, err := signer.PresignPutObject(background, &s3.PutObjectInput{Bucket: bucket, Key: aws.String("presigned"),
			Body: strings.NewReader("by URL")})
		if err != nil {
			return nil, err
		}
		return fetched(made.Method, made.URL, made.SignedHeader, "by URL")
	})
	step("presigned GET", func() (any, error) {
		made, err := signer.PresignGetObject(background, &s3.GetObjectInput{Bucket: bucket, Key: aws.String("presigned")})
		if err != nil {
			return nil, err
		}
		return fetched(made.Method, made.URL, made.SignedHeader, "")
	})
	step("presigned DELETE", func() (any, error) {
		made, err := signer.PresignDeleteObject(background, &s3.DeleteObjectInput{Bucket: bucket, Key: aws.String("presigned")})
		if err != nil {
			return nil, err
		}
		return fetched(made.Method, made.URL, made.SignedHeader, "")
	})
}

// What was written is looked at before it is deleted: each phase is a run of its own.
func cleanUp(client *s3.Client, bucket *string) {
	step("DeleteObjects", func() (any, error) {
		answer, err := client.ListObjectsV2(background, &s3.ListObjectsV2Input{Bucket: bucket})
		if err != nil {
			return nil, err
		}
		var every []types.ObjectIdentifier
		for _, each := range answer.Contents {
			every = append(every, types.ObjectIdentifier{Key: each.Key})
		}
		deleted, err := client.DeleteObjects(background, &s3.DeleteObjectsInput{Bucket: bucket,
			Delete: &types.Delete{Objects: every}})
		if err != nil {
			return nil, err
		}
		found := []string{}
		for _, each := range deleted.Deleted {
			found = append(found, *each.Key)
		}
		sort.Strings(found)
		return []any{found, len(deleted.Errors)}, nil
	})
	step("nothing is left", func() (any, error) {
		answer, err := client.ListObjectsV2(background, &s3.ListObjectsV2Input{Bucket: bucket})
		if err != nil {
			return nil, err
		}
		return len(answer.Contents), nil
	})
}
