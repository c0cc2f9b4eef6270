# Waits until every Region of the grid has an image (stacks/replication_wait.py and StartBuild set the variables).
set -eu
image="$REGISTRY/$REPOSITORY:$TAG"

# Returns true if a Region has the image. Formats: eu-west-1, or eu-west-1/210987654321 for another account.
is_in() {
    account=$(echo "$1" | sed -n 's,.*/,,p')
    aws ecr describe-images --region "${1%/*}" ${account:+--registry-id "$account"} \
        --repository-name "$REPOSITORY" --image-ids "imageTag=$TAG" >/dev/null
}

# Wait up to 48 minutes for an image that was just pushed. For an image that was pushed earlier, wait at least a quarter
# of an hour: either it has been on its way since then, or it never arrives.
pushed=$(aws ecr describe-images --region "$AWS_REGION" --repository-name "$REPOSITORY" --image-ids "imageTag=$TAG" \
    --query 'imageDetails[0].imagePushedAt' --output text)
now=$(date +%s)
until=$(($(date -d "$pushed" +%s) + 2880))
if [ "$until" -lt $((now + 900)) ]; then until=$((now + 900)); fi
for region in $REGIONS; do
    while ! is_in "$region"; do
        if [ "$(date +%s)" -ge "$until" ]; then
            echo "$image was not replicated to $region: ECR replicates no image that was pushed before the rule for a Region," \
                "or before its repository was recreated. Check 'aws ecr describe-image-replication-status'. If ECR does not" \
                "replicate it, delete it and deploy again, which builds and pushes it again:" \
                "aws ecr batch-delete-image --region $AWS_REGION --repository-name $REPOSITORY --image-ids imageTag=$TAG"
            exit 1
        fi
        echo "waiting until $image is replicated to $region"
        sleep 5
    done
done
